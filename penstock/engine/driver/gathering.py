"""Decide when a spread hash may be gathered at one site again. Pure.

Each cell is independent: it has its own part of the port that is cut, copies of all other rows, marks and pending rows.
If nothing is pending or parked and all cells have equal marks, the copies that one cell has are all copies that are
still needed, so the cells can be merged. Spreading need not wait: pending rows stay pending, and parked ones parked, in
every cell that needs them.
"""

from __future__ import annotations

from penstock.state.directory import Directory
from penstock.state.hash_ranges import point
from penstock.state.hot_keys import Cells, too_wide
from penstock.state.model import SubqueryState, restricted


def ready(state: SubqueryState, cells: Cells) -> bool:
    """Return whether no row of a hash is pending or parked in any of its cells, and all cells have equal marks."""
    here, sites = point(cells.hash), [state.sites[site] for site in cells.sites]
    waiting = [part for site in sites for part in (*(piece.range for piece in site.pending), *site.parked_ranges())]
    pending = any(part.intersect(here) for part in waiting)
    return not pending and len({tuple(restricted(site.marks, [here])) for site in sites}) == 1


def with_ready_gathered(directory: Directory, state: SubqueryState) -> Directory:
    """Return the next directory, with those hashes gathered that are marked for it and ready in the present state. A
    hash that is not spread in the state need not wait."""
    wanted = [cells.hash for cells in directory.spread if cells.gathering]
    now = {hash_: state.directory.cells_at(hash_) for hash_ in wanted}
    done = [hash_ for hash_, cells in now.items() if cells is None or ready(state, cells)]
    return directory.gathered(done) if done else directory


def fits(state: SubqueryState, sites: int) -> bool:
    """Return whether the state can move to a number of sites now."""
    return all(ready(state, cells) for cells in too_wide(state.directory.spread, sites))


def gathering_for(directory: Directory, sites: int) -> Directory:
    """Return the directory with all hashes marked for gathering that are spread over more than `sites` sites."""
    wide = [cells.hash for cells in too_wide(directory.spread, sites) if not cells.gathering]
    return directory.gathering(wide) if wide else directory
