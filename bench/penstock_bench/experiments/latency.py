"""`latency`: from the arrival of the row that completes a window to its published result, over the rate of arrival."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from penstock_bench.experiments.experiment import Column, Experiment, Finding, Record, Setting
from penstock_bench.experiments.latency_plot import write_plot
from penstock_bench.experiments.latency_run import PUBLISHED, Followers, Point, Size
from penstock_bench.experiments.part import Part

SHARES = (0.25, 0.5, 0.75)
QUICK = Size(backlog=50_000, seconds=3.0, skipped=0.5)


def measure(setting: Setting) -> Finding:
    size, shares = (QUICK, (0.5,)) if setting.quick else (Size(), SHARES)
    folder = setting.folder("latency")
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=folder)))
        parts = {
            system: stack.enter_context(
                Part("penstock_bench.experiments.live_run", folder / f"latency-{system}.log", setting.cores)
            )
            for system in PUBLISHED
        }
        points = all_points(Followers(setting, size, scratch, parts), shares)
    pictures = [write_plot(points, setting.pictures / "latency.png")] if setting.pictures else []
    return finding(points, pictures)


def all_points(followers: Followers, shares: Sequence[float]) -> list[Point]:
    """Each system at shares of its own maximum, and Penstock also at the rates of Spark, where both can be compared."""
    most = {system: followers.maximum(system) for system in PUBLISHED}
    pairs = [("penstock", "penstock"), ("spark", "spark"), ("penstock", "spark")]
    return [followers.point(system, of, share, most[of]) for share in shares for system, of in pairs]


def finding(points: Sequence[Point], pictures: Sequence[Path] = ()) -> Finding:
    records = tuple(_record(point) for point in sorted(points, key=lambda point: (point.system, point.rate)))
    return Finding(records, (), all(point.equal for point in points), tuple(pictures))


def _record(point: Point) -> Record:
    return {
        "system": point.system,
        "rate": point.rate,
        "share": point.share,
        "of": point.of,
        "median_seconds": point.percentile(50),
        "percentile_99_seconds": point.percentile(99),
        "windows": len(point.delays),
        "equal": point.equal,
    }


LATENCY = Experiment(
    name="latency",
    title="From arrival to published result",
    note="A file arrives every 100 ms; windows of 100 ms by 100 keys, no slack. The delay of a window is from the "
    "rename of the file that completes it to the moment at which its last result file can be seen. Both "
    "systems run as fast as they can, in turns, each in a process that is warm; rates are shares of what a "
    "system does with a backlog.",
    columns=(
        Column("system", "system"),
        Column("rate", "rows/s", ",.0f"),
        Column("share", "share", ".0%"),
        Column("of", "of the maximum of"),
        Column("median_seconds", "50 % s", ".3f"),
        Column("percentile_99_seconds", "99 % s", ".3f"),
        Column("windows", "windows"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
