"""Which bars a benchmark reached. Only right answers count, on both sides."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from penstock_bench.report.bars import BARS, LEAST_EPOCHS, Bar
from penstock_bench.report.records import OURS, Record


@dataclass(frozen=True)
class Verdict:
    """A bar and what came of it. `against` is the peer that counted, and `ratio` Penstock's rows per second over its;
    both None where nothing could be compared, and `reason` then says why. A missed bar may have a reason too."""

    bar: Bar
    outcome: Literal["reached", "missed", "not measured"]
    against: str | None
    ratio: float | None
    reason: str

    @property
    def text(self) -> str:
        figure = "" if self.ratio is None else f"{self.bar.figure(self.ratio)}"
        return ": ".join(filter(None, [figure, self.reason])) or "-"


def verdicts(records: Sequence[Record], bars: Iterable[Bar] = BARS) -> list[Verdict]:
    """A verdict on every bar of the workloads that were measured."""
    measured = {record.workload for record in records}
    return [_judge(bar, records) for bar in bars if bar.workload in measured]


def goals(records: Sequence[Record], judged: Iterable[Verdict]) -> dict[str, float]:
    """The rows per second with which Penstock would reach every bar that was measured, by workload."""
    ours = {record.workload: record.rows_per_second for record in records if record.system == OURS}
    found: dict[str, float] = {}
    for one in judged:
        rate = ours.get(one.bar.workload)
        if rate is not None and one.ratio is not None:
            needed = rate / one.ratio * one.bar.least_ratio
            found[one.bar.workload] = max(needed, found.get(one.bar.workload, 0.0))
    return found


def _judge(bar: Bar, records: Sequence[Record]) -> Verdict:
    here = [record for record in records if record.workload == bar.workload]
    ours = next((record for record in here if record.system == OURS), None)
    if ours is None:
        return Verdict(bar, "not measured", None, None, "Penstock did not take part")
    if ours.trouble or ours.rows_per_second is None:
        return Verdict(bar, "missed", None, None, f"Penstock: {ours.trouble}")
    return _compare(bar, ours, ours.rows_per_second, [record for record in here if record.system in bar.peers])


def _compare(bar: Bar, ours: Record, rate: float, peers: Sequence[Record]) -> Verdict:
    rates = {peer.system: peer.rows_per_second or 0.0 for peer in peers if not peer.trouble}
    if not rates:
        troubles = "; ".join(f"{peer.system}: {peer.trouble}" for peer in peers)
        return Verdict(bar, "not measured", None, None, troubles or f"without {' and '.join(bar.peers)}")
    fastest = max(rates, key=lambda system: rates[system])
    ratio = rate / rates[fastest]
    few = ours.epochs is not None and ours.epochs < LEAST_EPOCHS
    reached = ratio >= bar.least_ratio and not few
    reason = f"only {ours.epochs} epochs of at least {LEAST_EPOCHS}" if few else ""
    return Verdict(bar, "reached" if reached else "missed", fastest, ratio, reason)
