"""`adapt-epochs`: what long epochs cost in delay, and short ones in overhead (window joins, figures 13 and 14)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.adapt.arriving import Arrivals, Phase
from penstock_bench.adapt.live_lanes import LiveLane, live_runs
from penstock_bench.adapt.live_seen import LiveSeen, delay_below, mean_delay
from penstock_bench.adapt.plots import points, write_curves
from penstock_bench.adapt.watched_run import Option
from penstock_bench.experiments.experiment import Column, Experiment, Finding, Record, Setting

TITLE = "The length of epochs"
LENGTHS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
SITES = 3
RATE = 3_000.0  # rows a second: two fifths of what three sites can do
SECONDS = 20.0
BEGUN = 4.0  # delays count from here on

Seen = Sequence[tuple[LiveLane, LiveSeen]]


def measure(setting: Setting) -> Finding:
    lengths, rate, seconds, begun = (
        (LENGTHS[2:3], 1_000.0, 1.0, 0.0) if setting.quick else (LENGTHS, RATE, SECONDS, BEGUN)
    )
    lanes = [lane_of(length, rate, seconds) for length in lengths]
    return finding(list(live_runs(setting, "adapt-epochs", lanes)), begun, setting)


def lane_of(length: float, rate: float, seconds: float) -> LiveLane:
    settings: dict[str, Option] = {"sites": SITES, "epoch_seconds": length, "policy": "static"}
    return LiveLane(f"{length:g} s", Arrivals((Phase(seconds, rate),)), settings)


def finding(seen: Seen, begun: float, setting: Setting) -> Finding:
    records = tuple(_record(lane, one, begun) for lane, one in seen)
    return Finding(records, (), all(one.timeline.equal for _, one in seen), _pictures(records, setting))


def _record(lane: LiveLane, seen: LiveSeen, begun: float) -> Record:
    counted, sites = seen.arriving(begun, float("inf")), lane.settings["sites"]
    assert isinstance(sites, int)
    return {
        "length": lane.settings["epoch_seconds"],
        "epochs": len(seen.timeline.epochs),
        "delay": mean_delay(counted),
        "delay_99": delay_below(counted, 0.99),
        "overhead": seen.overhead() / (sites * seen.timeline.seconds),
        "per_epoch": seen.overhead() / max(1, sites * len(seen.efforts)),
        "cpu": seen.timeline.cpu,
        "equal": seen.timeline.equal,
    }


def _pictures(records: Sequence[Record], setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    return tuple(
        write_curves(
            {name: points(records, "length", key)},
            name, {}, setting.pictures / f"adapt-epochs-{key}.png", ("seconds of an epoch", label), marker="o",
        )
        for key, name, label in (
            ("delay", "Production delay", "seconds, on average"),
            ("overhead", "Overhead", "part of the time of a site"),
        )
    )  # fmt: skip


EPOCH_LENGTH = Experiment(
    name="adapt-epochs",
    title=TITLE,
    note="Band join at three sites, 3,000 rows/s arrive in files every 0.1 s; a row costs 0.4 ms of sleep at "
    "its site. Delay: from the arrival of the newer row of a result until it is published. Overhead: the part of its "
    "time that a site spends in epochs on anything but rows, and how long that is in one epoch.",
    columns=(
        Column("length", "epoch s", ".2f"),
        Column("epochs", "epochs"),
        Column("delay", "delay s", ".2f"),
        Column("delay_99", "99 % s", ".2f"),
        Column("overhead", "overhead", ".1%"),
        Column("per_epoch", "s an epoch", ".4f"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
