"""What a run may have told of itself, and how `penstock top` shows it."""

from __future__ import annotations

from datetime import UTC, datetime
from io import StringIO

from rich.console import Console

from penstock.cli.top_screen import picture
from penstock.control.status import DecisionStatus, GroupStatus, SiteStatus, Status, SubqueryStatus

BEGAN = 1_700_000_000.0
SITES = (
    SiteStatus(200_000.0, 1.04, 40_000.0, state_bytes=1_200_000_000, groups=16, output_per_second=1_234_567, delay=2.3),
    SiteStatus(100_000.0, 0.5, 10_000.0, state_bytes=88_000_000, groups=15, output_per_second=12.0, delay=0.3504),
    SiteStatus(0.0, 0.0, 0.0, state_bytes=0, groups=1),
)
HOTTEST = (GroupStatus("0110", 0, 150_000.0, 0.81, 39_000, 900_000_000), GroupStatus("0111", 1, 9.0, 0.1, 0, 4_200))
DECISIONS = (
    DecisionStatus(1200, 0, "move 0110 from site 0 to site 1", "site 0 is busy all the time", 0.25, -0.02),
    DecisionStatus(1201, 0, "split 0111", "it is hot", refused="it is a group of one key"),
)
STATUS = Status(
    query="busy",
    fingerprint="f00",
    epoch=1234,
    began=BEGAN,
    at=BEGAN + 3661,
    rows_in_per_second=402_113.4,
    rows_out_per_second=1201.0,
    waiting=1_203_000,
    low_water_mark=datetime(2024, 1, 31, 12, tzinfo=UTC),
    subqueries=(SubqueryStatus("window join", SITES, HOTTEST),),
    decisions=DECISIONS,
    disk_bytes=1_340_000_000,
)


def shown(status: Status, width: int = 80, now: float | None = None, most: int | None = None) -> list[str]:
    """The lines of a picture, as they are on a terminal of that width."""
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False)
    console.print(picture(status, status.at if now is None else now, most))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]
