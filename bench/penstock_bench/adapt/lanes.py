"""Runs on eight sites whose rows cost sleep, so that two cores carry them and the speed of each site is known."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from penstock_bench.adapt.slowdown import Slowed
from penstock_bench.adapt.timeline import Timeline
from penstock_bench.adapt.watched_run import Option, Question
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.part import Part
from penstock_bench.rows.data import ensure_data
from penstock_bench.workloads import workload_named

MODULE = "penstock_bench.adapt.watched_run"
SITES = 8
ROW_SECONDS = 80e-6  # a site works through 12,500 rows a second
ALWAYS = 1e9
WARM_ROWS = 100_000

# Epochs of half a second. An item is 80 ms long, so a deadline is kept to about that.
SETTINGS: dict[str, Option] = {
    "sites": SITES,
    "groups_per_site": 16,
    "epoch_seconds": 0.5,
    "item_rows": 1_000,
}


@dataclass(frozen=True)
class Lane:
    """One run: under a policy, with rounds of a length, while sites are slowed. Without a buffer there is no deadline
    either: a site works until all is done. `more` are settings that differ from those of the other experiments, and
    `row_seconds` is what a row costs."""

    policy: str
    slowed: tuple[Slowed, ...] = ()
    round_seconds: float = 2.0
    buffer_rows: int | None = 50_000
    workload: str = "band"
    more: Mapping[str, Option] = field(default_factory=dict)
    row_seconds: float = ROW_SECONDS

    @property
    def settings(self) -> dict[str, Option]:
        deadline = None if self.buffer_rows is None else SETTINGS["epoch_seconds"]
        return {
            **SETTINGS,
            "deadline_seconds": deadline,
            "buffer_rows": self.buffer_rows,
            "policy": self.policy,
            "round_seconds": self.round_seconds,
            **self.more,
        }


def ideal(slow: int, sites: int = SITES) -> float:
    """What all sites can do together where some work at half their speed, of what they can do otherwise."""
    return 1 - slow / (2 * sites)


def slow_sites(count: int, begin: float = 0.0) -> tuple[Slowed, ...]:
    return tuple(Slowed(site, begin, ALWAYS) for site in range(count))


def timelines(setting: Setting, name: str, rows: int, lanes: Iterable[Lane]) -> Iterator[tuple[Lane, Timeline]]:
    """The runs, one after the other in one process, over so many rows of each stream; a short one warms it up."""
    folder = setting.folder(name)
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part(MODULE, folder / f"{name}.log", setting.cores) as part,
    ):
        part.ask(_question(setting, Lane("static"), WARM_ROWS // 10 if setting.quick else WARM_ROWS, scratch), Timeline)
        for lane in lanes:
            setting.tell(f"{lane.policy}, {len(lane.slowed)} slowed ...")
            seen = part.ask(_question(setting, lane, rows, scratch), Timeline)
            setting.tell(f"  {seen.seconds:.1f} s, {len(seen.moves())} moves, {seen.rate(0, seen.seconds):,.0f} rows/s")
            yield lane, seen


def _question(setting: Setting, lane: Lane, rows: int, scratch: str) -> Question:
    streams = workload_named(lane.workload).streams
    data = ensure_data(setting.folder(f"data-{rows}"), rows, streams)
    return Question(
        workload=lane.workload,
        data=str(data),
        scratch=f"{scratch}/run",
        settings=lane.settings,
        row_seconds=lane.row_seconds,
        slowed=lane.slowed,
        cores=setting.cores,
    )
