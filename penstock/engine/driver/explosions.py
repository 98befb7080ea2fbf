"""Keys of joins that give very many rows: they are told of once, in the epoch before they are worked on."""

from __future__ import annotations

from collections.abc import Callable

from penstock.engine.driver.effort import Reports
from penstock.engine.wire.job import SiteReport
from penstock.events import Event, JoinExplodes


class Explosions:
    """Invariant: `known[s]` are the hashes of subquery s that were told of. They are forgotten with the run."""

    def __init__(self, subqueries: int, tell: Callable[[Event], None]) -> None:
        self._known: list[frozenset[int]] = [frozenset()] * subqueries
        self._tell = tell

    @property
    def known(self) -> tuple[frozenset[int], ...]:
        return tuple(self._known)

    def hear(self, epoch: int, reports: Reports) -> None:
        """Tell what the sites have found in an epoch."""
        for report in (report for report in reports if isinstance(report, SiteReport)):
            for found in report.explosions:
                self._known[report.subquery] |= {found.hash}
                self._tell(JoinExplodes(epoch, report.subquery, found.key, found.rows, found.combinations))
