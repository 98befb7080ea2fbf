"""Sites that are disturbed while a join runs whose state has stopped growing, by a simulated clock (Flux, section 6).

Every result has its share in what is measured: results per second of the simulated clock, and how long results wait
because state that they need is parked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from penstock_bench.adapt.plots import write_curves
from penstock_bench.experiments.experiment import Column, Record, Setting
from penstock_bench.overflow.charged import Charges
from penstock_bench.overflow.choices import Choice
from penstock_bench.overflow.lanes import Lane
from penstock_bench.overflow.pressed import SITE, TAKEN
from penstock_bench.overflow.seen import OverflowEpoch, OverflowSeen, Points
from penstock_bench.overflow.streams import Streams

UNDISTURBED = "undisturbed (`static`)"
CHARGES = Charges(row=2e-4, result=2e-5)
EVERY = 15  # seconds of event time in an epoch
SMOOTH = 4  # epochs of which a curve shows the mean
COLUMNS = (
    Column("run", "run"),
    Column("steady", "results/s in the end", ",.0f"),
    Column("part", "of undisturbed", ".2f"),
    Column("seconds", "simulated s", ".1f"),
    Column("delay", "mean wait s", ".3f"),
    Column("owed", "by the clean-up", ","),
    Column("over", "epochs above memory", ".0%"),
    Column("parked", "parked MB", ".1f"),
    Column("pushes", "times parked"),
    Column("moves", "moves"),
    Column("equal", "equal"),
)


@dataclass(frozen=True)
class Scale:
    """How much is run: `epochs`, of `rows` rows of a stream each, of which state keeps `window`; from the epoch `since`
    on sites are disturbed. State takes about three quarters of `memory`, the bytes of a site."""

    epochs: int
    rows: int
    window: int
    since: int
    memory: int
    sites: int
    groups: int
    tuple_range: int

    def lane(self, name: str, kind: str, slowed: tuple[int, ...] = ()) -> Lane:
        """Return the run of a policy: site 0 loses memory, and the sites `slowed` get half as fast. Parked groups are
        cleaned up in turns, as in Flux."""
        streams = Streams(
            self.epochs * self.rows, (1,), self.tuple_range, rate=self.rows / EVERY, seconds=self.window * EVERY
        )
        more: dict[str, str | int | float | None] = {
            "sites": self.sites,
            "groups_per_site": self.groups,
            "rows_per_epoch": 3 * self.rows,
            "state_bytes": self.memory,
            "overflow": "rotate",
        }
        charges = replace(CHARGES, slowed=slowed, since=self.since)
        choice = Choice(kind, pressed_from=None if kind == "static" else self.since)
        return Lane(name, streams, choice, more, length=self.epoch_seconds, charges=charges)

    @property
    def epoch_seconds(self) -> float:
        """Return the length of a round, about that of an epoch in which nothing is disturbed."""
        return 0.35 * self.rows / FULL.rows

    @property
    def steady_from(self) -> int:
        """Return the first epoch of the last part of the run, in which policies have found their places."""
        return self.since + (self.epochs - self.since) // 2


FULL = Scale(120, 3_000, 20, 48, 1_750_000, 8, 16, 30_000)
QUICK = Scale(28, 300, 5, 10, 110_000, 4, 8, 900)


def scale(quick: bool) -> Scale:
    return QUICK if quick else FULL


def steady(seen: OverflowSeen, how: Scale) -> float:
    """Return results per simulated second in the last part of the run, without the epoch in which the input ends."""
    return per_second(seen.normal[how.steady_from : -1])


def per_second(epochs: Sequence[OverflowEpoch]) -> float:
    return sum(epoch.results for epoch in epochs) / sum(epoch.length for epoch in epochs)


def waiting(seen: OverflowSeen, undisturbed: OverflowSeen) -> list[int]:
    """Return the results that wait for a clean-up after each epoch: those that the undisturbed run has had. Both have
    the same rows in each epoch."""
    ahead, late = 0, []
    for own, other in zip(seen.normal, undisturbed.normal, strict=True):
        ahead += other.results - own.results
        late.append(max(0, ahead))
    return late


def delay(seen: OverflowSeen, undisturbed: OverflowSeen, how: Scale) -> float:
    """Return how long a result waits for a clean-up on average, while sites are disturbed: by Little's law."""
    epochs, late = seen.normal[how.since :], waiting(seen, undisturbed)[how.since :]
    waited = sum(results * epoch.length for results, epoch in zip(late, epochs, strict=True))
    return waited / sum(epoch.results for epoch in epochs)


def record(name: str, seen: OverflowSeen, undisturbed: OverflowSeen, how: Scale) -> Record:
    """Return the line of a run."""
    rate, after = steady(seen, how), seen.normal[how.since :]
    most = how.memory * (1 - TAKEN if name != UNDISTURBED else 1)
    return {
        "run": name,
        "steady": rate,
        "part": rate / steady(undisturbed, how),
        "seconds": sum(epoch.length for epoch in seen.normal),
        "delay": delay(seen, undisturbed, how),
        "owed": seen.results_owed,
        "over": sum(epoch.held[SITE] > most for epoch in after) / len(after),
        "parked": seen.most_parked / 1e6,
        "pushes": seen.pushes,
        "moves": seen.moves,
        "equal": seen.equal,
    }


def throughput(seen: OverflowSeen) -> Points:
    """Return (epoch, thousands of results per simulated second), smoothed."""
    epochs = seen.normal
    return [(float(n), per_second(epochs[n - SMOOTH : n]) / 1e3) for n in range(SMOOTH, len(epochs))]


def pictures(
    setting: Setting, name: str, title: str, moment: str, seen: Mapping[str, OverflowSeen], how: Scale
) -> tuple[Path, ...]:
    """Write what Flux shows in figures 9 and 10, throughput and waits, and the state of the site that loses memory."""
    folder, begin = setting.pictures, how.since // 2
    if folder is None:
        return ()
    late = {run: waiting(one, seen[UNDISTURBED]) for run, one in seen.items()}
    held = {run: one.memory(SITE) for run, one in seen.items()} | {"its memory": _memory(how, begin)}
    drawn: dict[str, tuple[str, Mapping[str, Points]]] = {
        name: ("thousands of results per simulated second", {run: throughput(one) for run, one in seen.items()}),
        f"{name}-waits": ("results that wait for a clean-up", {run: _numbered(own) for run, own in late.items()}),
        f"{name}-memory": (f"active state of site {SITE}, MB", held),
    }
    return tuple(
        write_curves(_since(begin, lines), title, {how.since: moment}, folder / f"{file}.png", ("epoch", what))
        for file, (what, lines) in drawn.items()
    )


def _since(begin: int, lines: Mapping[str, Points]) -> dict[str, Points]:
    """Leave out most of the time in which state still grows."""
    return {run: [point for point in points if point[0] >= begin] for run, points in lines.items()}


def _numbered(values: Sequence[int]) -> Points:
    return [(float(number), float(value)) for number, value in enumerate(values, start=1)]


def _memory(how: Scale, begin: int) -> Points:
    """Return the memory that the query has at the site, in megabytes: a line with a step."""
    whole, rest = how.memory / 1e6, how.memory * (1 - TAKEN) / 1e6
    return [(float(begin), whole), (float(how.since), whole), (float(how.since), rest), (float(how.epochs), rest)]
