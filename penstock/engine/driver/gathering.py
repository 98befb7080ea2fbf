"""When a spread hash may be gathered: live at one site again. Pure.

Each cell stands for itself: it has its own part of the cut port, copies of all other rows, marks and pending rows.
Where nothing is pending and all have come equally far, the copies that one of them has are what all of them have that
is still needed, so they can be put together. Spreading waits for nothing: what is pending is pending in every cell that
needs it.
"""

from __future__ import annotations

from penstock.checkpoint.manifest import SubqueryState
from penstock.engine.marks import restricted
from penstock.state.directory import Directory
from penstock.state.hash_ranges import point
from penstock.state.hot_keys import Cells, too_wide


def ready(state: SubqueryState, cells: Cells) -> bool:
    """Whether no row of a hash is pending in any of its cells, and all of them have come equally far."""
    here, sites = point(cells.hash), [state.sites[site] for site in cells.sites]
    pending = any(piece.range.intersect(here) for site in sites for piece in site.pending)
    return not pending and len({tuple(restricted(site.marks, [here])) for site in sites}) == 1


def settled(directory: Directory, state: SubqueryState) -> Directory:
    """The directory to come, without those cells that are to be gathered and can be, by the state of now. What is not
    spread in the state has nothing to wait for."""
    wanted = [cells.hash for cells in directory.spread if cells.gathering]
    now = {hash_: state.directory.cells_at(hash_) for hash_ in wanted}
    done = [hash_ for hash_, cells in now.items() if cells is None or ready(state, cells)]
    return directory.gathered(done) if done else directory


def fits(state: SubqueryState, sites: int) -> bool:
    """Whether the state can be given to a number of sites now."""
    return all(ready(state, cells) for cells in too_wide(state.directory.spread, sites))


def gathering_for(directory: Directory, sites: int) -> Directory:
    """With that to be gathered which is spread over more than a number of sites."""
    wide = [cells.hash for cells in too_wide(directory.spread, sites) if not cells.gathering]
    return directory.gathering(wide) if wide else directory
