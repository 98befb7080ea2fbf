"""How many bytes a query holds, told by a manifest: state, rows that wait for work, rows held back for their order.

A slice counts for its share of the rows of its run, and of these only those that are still needed: state that has
expired, and held rows that have gone through, lie in the files until these are rewritten, but are not held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.kernels.arrays import Times
from penstock.operators.arrange import times_of
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.plan.program import Program
from penstock.state.model import Manifest, SiteState, least
from penstock.state.runs import Slice
from penstock.storage.open_runs import OpenRuns


@dataclass(frozen=True)
class Held:
    """Bytes. `state` is what operators hold, `pending` what waits for work, `ordering` what is held back only to bring
    rows in order, before an operator or before the sink."""

    state: int = 0
    pending: int = 0
    ordering: int = 0

    @property
    def total(self) -> int:
        return self.state + self.pending + self.ordering

    def plus(self, other: Held) -> Held:
        return Held(self.state + other.state, self.pending + other.pending, self.ordering + other.ordering)


class HeldBytes:
    """Counts what the manifests of one run of a program hold; `runs` is the folder of its run files."""

    def __init__(self, program: Program, runs: Path) -> None:
        self._operators = [subquery.operator for subquery in program.subqueries]
        self._runs, self._open = runs, OpenRuns()

    def count(self, manifest: Manifest) -> Held:
        held = Held()
        for operator, subquery in zip(self._operators, manifest.subqueries, strict=True):
            for site in subquery.sites:
                held = held.plus(self._of_site(operator, site))
        self._open.keep_only(self._runs, manifest.run_names())
        return held

    def _of_site(self, operator: Operator, site: SiteState) -> Held:
        reached = least(site.marks, operator.tracks)
        state = self._bytes(site.slices, lambda port: operator.expired_below(port, reached))
        pending = self._bytes(site.pending, lambda port: None)
        ordering = self._bytes(_held_back(site), lambda port: site.released.at)
        return Held(0, pending, ordering + state) if isinstance(operator, Reorder) else Held(state, pending, ordering)

    def _bytes(self, slices: Iterable[Slice], needed_from: Callable[[int], int | None]) -> int:
        """The bytes of the rows that are not below the bound of their port (None: of all rows)."""
        return round(sum(self._shares(slices, needed_from)))

    def _shares(self, slices: Iterable[Slice], needed_from: Callable[[int], int | None]) -> Iterator[float]:
        for piece in slices:
            rows = _needed(times_of(self._open.read(self._runs, piece)), needed_from(piece.run.port))
            yield piece.run.size * rows / piece.run.rows


def _held_back(site: SiteState) -> tuple[Slice, ...]:
    """The slices that may still hold rows back: none, once all rows have gone through."""
    return () if site.released.ended else site.held


def _needed(times: Times, bound: int | None) -> int:
    return len(times) if bound is None else int(np.count_nonzero(times >= bound))
