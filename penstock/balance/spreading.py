"""Which hashes can be spread over sites, and gathered. Pure."""

from __future__ import annotations

from collections.abc import Collection

from penstock.balance.decisions import Spread
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HASH_END
from penstock.state.hot_keys import too_wide


def impossible_spread(directory: Directory, change: Spread, may_cut: Collection[int]) -> str | None:
    """Why a hash cannot be spread so; None if it can."""
    if not 0 <= change.hash < HASH_END:
        return "there is no such hash"
    if change.cut not in may_cut:
        return "the rows of this input must not be parted"
    if len(set(change.sites)) < max(2, len(change.sites)):
        return "it takes at least two sites, each of them once"
    if not all(0 <= site < directory.sites for site in change.sites):
        return f"there are {directory.sites} sites"
    return "it is spread already" if directory.cells_at(change.hash) is not None else None


def impossible_gather(directory: Directory, hash_: int) -> str | None:
    """Why a hash cannot be gathered; None if it can."""
    cells = directory.cells_at(hash_)
    if cells is None:
        return "it is not spread"
    return "it is being gathered already" if cells.gathering else None


def impossible_scale(directory: Directory, sites: int) -> str | None:
    """Why there cannot be so many sites; None if there can."""
    if sites < 1:
        return "there must be a site"
    wide = too_wide(directory.spread, sites)
    if not wide:
        return None
    return f"a key is spread over {len(wide[0].sites)} sites, and has to be gathered first"
