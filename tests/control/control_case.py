"""What tests of the control folder share: when a run began, a clock that stands still, and a status."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from penstock.control.status import DecisionStatus, GroupStatus, SiteStatus, Status, SubqueryStatus

BEGAN = 1_000_000.0
HOUR = 3600.0
SUBQUERY = SubqueryStatus("join", (SiteStatus(1.0, 0.5, 2.0, 3, 4),), (GroupStatus("01", 0, 1.0, 0.5, 2, 3),), 9)


class Clock:
    """Stands still until it is set."""

    def __init__(self) -> None:
        self.now = BEGAN + 10

    def __call__(self) -> float:
        return self.now


def files(root: Path) -> set[str]:
    return {path.name for path in (root / "control").iterdir()}


def status(epoch: int = 7) -> Status:
    return Status(
        query="busy",
        fingerprint="f00",
        epoch=epoch,
        began=BEGAN,
        at=BEGAN + 10,
        rows_in_per_second=1000.5,
        rows_out_per_second=10.0,
        waiting=3,
        low_water_mark=datetime(2024, 1, 31, 12, tzinfo=UTC),
        subqueries=(SUBQUERY,),
        decisions=(DecisionStatus(6, 0, "split 01", "it is hot", 0.2, 0.1, None),),
    )
