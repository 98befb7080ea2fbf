"""The ordered merger: rows are held back and let through in order of time, up to the low-water mark.

What it has let through is told by one mark, so the runs of held rows are never rewritten for that: a held row whose
time lies below the mark has gone through.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.checkpoint.manifest import SiteState
from penstock.engine.task.site.storing import Storage, of_port
from penstock.operators.arrange import merged, times_of
from penstock.progress.mark import BEGIN, MAX_TIME, Mark
from penstock.state.runs import Slice


@dataclass(frozen=True)
class Held:
    """What waits for a later epoch: the rows of the slices with a time that is not below `released`."""

    slices: tuple[Slice, ...] = ()
    released: Mark = BEGIN


def release(
    storage: Storage, state: SiteState, arrived: Sequence[Sequence[pa.Table]], upto: Mark, may: Callable[[], bool]
) -> tuple[tuple[tuple[pa.Table, ...], ...], Held]:
    """Merge what has arrived with what is held. Gives, for each port, the rows below the low-water mark `upto`, as they
    travelled, in one table or none, and what is still held."""
    through: list[tuple[pa.Table, ...]] = []
    held: list[Slice] = []
    for port, tables in enumerate(arrived):
        waiting = of_port(state.held, port)
        parts = [_between(storage.read(p), state.released, upto) for p in waiting if _reached(p, upto)]
        for fresh in tables:
            parts.append(_below(fresh, upto))
            waiting += storage.write(port, _not_below(fresh, upto))
        held += storage.compacted(waiting, port, _bound(upto), 0, _merged, may)
        filled = [part for part in parts if part.num_rows]
        through.append((merged(filled, filled[0].schema),) if filled else ())
    return tuple(through), Held(tuple(held), upto)


def _merged(port: int, tables: Sequence[pa.Table]) -> pa.Table:
    return merged(tables, tables[0].schema)


def _bound(upto: Mark) -> int:
    return MAX_TIME if upto.ended else upto.at


def _reached(piece: Slice, upto: Mark) -> bool:
    return upto.ended or piece.run.min_time < upto.at


def _between(rows: pa.Table, after: Mark, upto: Mark) -> pa.Table:
    return _below(rows.filter(pa.array(times_of(rows) >= after.at)), upto)


def _below(rows: pa.Table, upto: Mark) -> pa.Table:
    """What has just arrived has no lower bound: #time need not be what the punctuation is about."""
    return rows if upto.ended else rows.filter(pa.array(times_of(rows) < upto.at))


def _not_below(rows: pa.Table, upto: Mark) -> pa.Table:
    return rows.slice(0, 0) if upto.ended else rows.filter(pa.array(times_of(rows) >= upto.at))
