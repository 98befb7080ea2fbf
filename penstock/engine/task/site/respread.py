"""Rows of a site under another grid: what it was given when the grid changed, spread over its new cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.checkpoint.manifest import SiteState
from penstock.engine.task.site.storing import Storage
from penstock.operators.protocol import Gridded
from penstock.state.hash_ranges import HashRange
from penstock.state.runs import Slice


def spread_anew(storage: Storage, operator: Gridded, state: SiteState, homes: Sequence[HashRange]) -> SiteState:
    """What a site was given when the grid changed, spread over its cells and written. Each slice becomes a run of its
    own, so that they expire as they would have."""
    storage.wait_for((*state.slices, *state.held), None)
    slices, held = (
        tuple(new for old in pieces for new in _rewritten(storage, operator, old, homes))
        for pieces in (state.slices, state.held)
    )
    return replace(state, slices=slices, held=held)


def _rewritten(storage: Storage, operator: Gridded, piece: Slice, homes: Sequence[HashRange]) -> list[Slice]:
    return storage.write(piece.run.port, operator.respread(piece.run.port, storage.read(piece), homes))
