"""Joins whose rows arrive while they run, one after the other, on sites whose rows cost sleep."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from penstock_bench.adapt.arriving import Arrivals, Phase
from penstock_bench.adapt.live_run import Question
from penstock_bench.adapt.live_seen import LiveSeen
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.part import Part

MODULE = "penstock_bench.adapt.live_run"
WARM = Arrivals((Phase(1.0, 1_000.0),))
ROW_SECONDS = 400e-6  # dear rows: few of them keep a site busy, and the cores are free
ROWS_PER_SITE = 2_500  # a second
ITEM_ROWS = 200


@dataclass(frozen=True)
class LiveLane:
    """One run. `name` is what is different about it."""

    name: str
    arrivals: Arrivals
    settings: dict[str, Option]

    @property
    def rate(self) -> float:
        """That of its first phase."""
        return self.arrivals.phases[0].rate


def live_runs(setting: Setting, name: str, lanes: Iterable[LiveLane]) -> Iterator[tuple[LiveLane, LiveSeen]]:
    """The runs, one after the other in one process; a short one warms it up."""
    folder = setting.folder(name)
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part(MODULE, folder / f"{name}.log", setting.cores) as part,
    ):
        for number, lane in enumerate(lanes):
            if not number:
                part.ask(_question(setting, LiveLane("warm", WARM, lane.settings), scratch), LiveSeen)
            setting.tell(f"{lane.name} ...")
            seen = part.ask(_question(setting, lane, scratch), LiveSeen)
            setting.tell(f"  {seen.timeline.seconds:.1f} s, {len(seen.timeline.changes)} changes")
            yield lane, seen


def _question(setting: Setting, lane: LiveLane, scratch: str) -> Question:
    return Question(lane.arrivals, f"{scratch}/run", lane.settings, ROW_SECONDS, cores=setting.cores)
