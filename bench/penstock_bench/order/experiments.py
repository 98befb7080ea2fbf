"""The experiments on order: queries of the paper on out-of-order processing over packets that arrive with skew.

Each asks one query at several points: a growing delay of some links, or a growing band. What the points of an
experiment have in common is the packets; only their arrival, or the band, changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import penstock as ps
from penstock.api.streams import Stream
from penstock.errors import ConfigError
from penstock_bench.rows.packets import SECOND, Link, Traffic, arriving

MINUTE = 60 * SECOND
ENDS = [("srcIP", "destIP"), ("destIP", "srcIP"), ("srcPort", "destPort"), ("destPort", "srcPort")]


@dataclass(frozen=True)
class Size:
    """`share` of the packets of a full measurement, in epochs that are `stretch` times as long, at every `every`-th
    point, counted from the last one."""

    share: float = 1.0
    stretch: int = 1
    every: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.stretch < 1 or self.every < 1:
            raise ConfigError(
                "an experiment is measured with at most all of its packets, in epochs of at least their length",
                detail=f"share {self.share}, stretch {self.stretch}, every {self.every}",
                hint="use a share up to 1 and whole numbers from 1",
            )


FULL, QUICK = Size(), Size(share=0.2, stretch=2, every=3)


@dataclass(frozen=True)
class Windowed:
    """When results are covered by punctuation: a window of `size` once the mark of each source (`behind`, by name) has
    passed its end by so much."""

    size: int
    behind: dict[str, int]


@dataclass(frozen=True)
class Experiment:
    """`ask(experiment, point, size)` is the query. `bar`: out of order must hold at most this share of what in order
    holds, at the last point. `covered(point)` says when results could be known, where latency is measured."""

    name: str
    figure: int
    title: str
    axis: str
    points: tuple[int, ...]
    traffic: Traffic
    epoch: int
    ask: Callable[[Experiment, int, Size], Stream]
    bar: float | None = None
    covered: Callable[[int], Windowed] | None = None

    def measured_points(self, size: Size) -> tuple[int, ...]:
        return self.points[:: -size.every][::-1]

    def streams(self, size: Size, *links: Link) -> list[Stream]:
        """The packets of some links, arriving epoch by epoch."""
        traffic = replace(self.traffic, conversations=max(1, round(self.traffic.conversations * size.share)))
        return [
            _stream(traffic, replace(link, rate=link.rate * size.share), self.epoch * size.stretch) for link in links
        ]


def _stream(traffic: Traffic, link: Link, epoch: int) -> Stream:
    batches = arriving(traffic.packets(link), link.delay, epoch)
    return ps.read.batches(batches, time="ts", progress=ps.ordered(), name=link.name)


def _union_count(experiment: Experiment, delay: int, size: Size) -> Stream:
    main = Link("Main2", 10_000, answers=True, delay=delay * SECOND)
    control, *mains = experiment.streams(size, Link("Control", 100), Link("Main1", 10_000), main)
    return control.union(*mains).window(ps.tumbling("10s")).agg(count=ps.count())


def _union_group_count(experiment: Experiment, delay: int, size: Size) -> Stream:
    late = Link("M2", 10_000, answers=True, delay=delay * SECOND)
    one, other = experiment.streams(size, Link("M1", 10_000), late)
    return one.union(other).group_by("srcIP", "destIP").window(ps.tumbling("10s")).agg(count=ps.count())


def _sliding_count(experiment: Experiment, delay: int, size: Size) -> Stream:
    control = Link("C", 10, delay=delay * MINUTE)
    one, *others = experiment.streams(size, Link("M1", 1_000), Link("M2", 1_000, answers=True), control)
    return one.union(*others).window(ps.sliding("5m", every="1m")).agg(count=ps.count())


def _band_join_count(experiment: Experiment, band: int, size: Size, delay: int = 0) -> Stream:
    one, other = experiment.streams(size, Link("M1", 400, delay=delay), Link("M2", 400, answers=True))
    joined = one.join(other, on=list(ENDS), within=f"{band}s")
    return joined.window(ps.tumbling("1m", time="ts")).agg(count=ps.count())


def _skewed_band_join_count(experiment: Experiment, band: int, size: Size) -> Stream:
    return _band_join_count(experiment, band, size, delay=MINUTE)


def _band_covers(band: int) -> Windowed:
    return Windowed(MINUTE, {"M1": 0, "M2": band * SECOND})


def _window_join(experiment: Experiment, delay: int, size: Size) -> Stream:
    late = delay * SECOND
    links = Link("A", 1_000), Link("B", 1_000, delay=late)
    answers = Link("C", 1_000, answers=True), Link("D", 1_000, answers=True, delay=late)
    a, b, c, d = (stream.windowed(ps.tumbling("10s")) for stream in experiment.streams(size, *links, *answers))
    return a.union(b).join(c.union(d), on=list(ENDS), within="window").select("srcIP", "destIP", "ts")


def _equality_join(experiment: Experiment, delay: int, size: Size) -> Stream:
    answers = Link("M2", 2_000, answers=True), Link("C", 40, answers=True, delay=delay * SECOND)
    one, other, control = experiment.streams(size, Link("M1", 2_000), *answers)
    return one.join(other.union(control), on=list(ENDS), within="0s").select("srcIP", "destIP", "ts")


DELAYS, BANDS = (0, 4, 20, 40), (10, 20, 40, 60)
EXPERIMENTS: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        Experiment(
            "q1", 1, "count over a union, one source late", "delay of Main2 (s)",
            DELAYS, Traffic(60, 20_000), 2 * SECOND, _union_count, bar=0.5,
        ),
        Experiment(
            "q5", 1, "count by address over a union, one source late", "delay of M2 (s)",
            DELAYS, Traffic(60, 20_000), 2 * SECOND, _union_group_count,
        ),
        Experiment(
            "q6", 10, "tumbling-window join of two unions", "delay of B and D (s)",
            DELAYS, Traffic(60, 8_000), 2 * SECOND, _window_join,
        ),
        Experiment(
            "q7", 11, "count over a band join", "band (s)",
            BANDS, Traffic(240, 1_000), 10 * SECOND, _band_join_count, bar=0.5, covered=_band_covers,
        ),
        Experiment(
            "q7-skew", 11, "count over a band join, M1 a minute late", "band (s)",
            BANDS, Traffic(240, 1_000), 10 * SECOND, _skewed_band_join_count, covered=_band_covers,
        ),
        Experiment(
            "q8", 12, "equality join, late rows on one input", "delay of C (s)",
            DELAYS, Traffic(60, 1_000, tick=SECOND), 2 * SECOND, _equality_join,
        ),
        Experiment(
            "q9", 13, "sliding count over a union, one source late", "delay of C (min)",
            (0, 1, 2, 4), Traffic(600, 20_000), 20 * SECOND, _sliding_count, bar=0.5,
        ),
    )
}  # fmt: skip
