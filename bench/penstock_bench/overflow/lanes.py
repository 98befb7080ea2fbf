"""The runs of an experiment on overflow, one after the other in one process, by turns."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.part import Part
from penstock_bench.overflow.charged import Charges
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.seen import OverflowSeen, in_the_middle
from penstock_bench.overflow.stepped_run import Option, Question
from penstock_bench.overflow.streams import Streams

MODULE = "penstock_bench.overflow.stepped_run"
NEVER = 1_000_000  # windows by which results may be delayed: what is parked waits for the end
SETTINGS: dict[str, Option] = {"sites": 1, "groups_per_site": 64, "overflow": "defer", "max_delay": NEVER}


@dataclass(frozen=True)
class Lane:
    """One run, by its name in the table; `more` are settings that differ from those of the other experiments."""

    name: str
    streams: Streams
    choice: Choice
    more: Mapping[str, Option] = field(default_factory=dict)
    length: float = 15.0
    heavy: float = 0.0
    charges: Charges | None = None

    def question(self, scratch: str) -> Question:
        settings = {**SETTINGS, **self.more}
        return Question(self.streams, self.choice, settings, scratch, self.length, self.heavy, self.charges)


Turns = dict[str, list[OverflowSeen]]


def by_turns(setting: Setting, name: str, lanes: Sequence[Lane], turns: int = 1) -> Turns:
    """Return the runs of each lane: all lanes once in a turn."""
    seen: Turns = {lane.name: [] for lane in lanes}
    for lane, one in _runs(setting, name, list(lanes) * turns):
        seen[lane.name].append(one)
    return seen


def _runs(setting: Setting, name: str, lanes: Iterable[Lane]) -> Iterator[tuple[Lane, OverflowSeen]]:
    folder = setting.folder(name)
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        Part(MODULE, folder / f"{name}.log", setting.cores) as part,
    ):
        for number, lane in enumerate(lanes):
            setting.tell(f"{lane.name} ...")
            seen = part.ask(lane.question(f"{scratch}/{number}"), OverflowSeen)
            setting.tell(
                f"  {seen.results_before:,} results, {seen.results_owed:,} by a clean-up of "
                f"{seen.clean_up_seconds:.1f} s; {seen.parks} parks, {seen.moves} moves"
            )
            yield lane, seen


def middles(turns: Turns) -> dict[str, OverflowSeen]:
    """Return the turn in the middle of each lane."""
    return {name: in_the_middle(seen) for name, seen in turns.items()}


def all_equal(turns: Turns) -> bool:
    """Return whether every run had the results of the batch answer."""
    return all(one.equal for seen in turns.values() for one in seen)
