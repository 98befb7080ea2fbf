"""`adapt-slowed`: one of eight sites gets half as fast at a known moment (Flux, figure 6)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median

from penstock_bench.adapt.lanes import ALWAYS, Lane, ideal, timelines
from penstock_bench.adapt.plots import write_curves
from penstock_bench.adapt.slowdown import Slowed
from penstock_bench.adapt.timeline import Timeline, recovery
from penstock_bench.experiments.experiment import Bar, Column, Experiment, Finding, Record, Setting

MOMENT = 10.0  # when the site is slowed
CALM = 3.0  # from when on the run is at its usual speed
WIDTH = 1.0  # of the intervals over which rates are told
OWN = "even"
POLICIES = ("static", OWN, "flux", "diffusion")
BAR = 0.9
TITLE = "One of eight sites slowed by half while the query runs"

Seen = Sequence[tuple[Lane, Timeline]]


def measure(setting: Setting) -> Finding:
    rows, policies, moment = (60_000, ("static", OWN), 1.0) if setting.quick else (1_250_000, POLICIES, MOMENT)
    slowed = (Slowed(0, moment, ALWAYS),)
    lanes = [Lane(policy, slowed) for policy in policies] * (1 if setting.quick else setting.repeat)
    return finding(list(timelines(setting, "adapt-slowed", rows, lanes)), moment, setting)


def finding(seen: Seen, moment: float, setting: Setting) -> Finding:
    turns: dict[str, list[Record]] = {}
    for lane, timeline in seen:
        turns.setdefault(lane.policy, []).append(_record(lane, timeline, moment))
    records = tuple(map(_of_turns, turns.values()))
    own = next(r["of_ideal"] for r in records if r["policy"] == OWN)
    assert isinstance(own, float)
    bar = Bar(f"steady rate with `{OWN}`, of the ideal", own, "at least", BAR)
    return Finding(records, (bar,), all(timeline.equal for _, timeline in seen), _pictures(seen, moment, setting))


def _of_turns(turns: Sequence[Record]) -> Record:
    """The turn with the median rate, of the ideal, and the least of all turns."""
    of_ideal = [float(str(turn["of_ideal"])) for turn in turns]
    middle = min(turns, key=lambda turn: abs(float(str(turn["of_ideal"])) - median(of_ideal)))
    return {**middle, "least": min(of_ideal), "equal": all(turn["equal"] for turn in turns)}


def _pictures(seen: Seen, moment: float, setting: Setting) -> tuple[Path, ...]:
    if setting.pictures is None:
        return ()
    curves = {lane.policy: timeline.curve(WIDTH) for lane, timeline in seen}
    return (write_curves(curves, TITLE, {moment: "slowed"}, setting.pictures / "adapt-slowed.png"),)


def _record(lane: Lane, seen: Timeline, moment: float) -> Record:
    before = seen.rate(min(CALM, moment / 2), moment)
    goal, end = before * ideal(1), seen.input_seconds
    steady = seen.rate(moment + (end - moment) / 2, end)
    curve = [(at, rate) for at, rate in seen.curve(WIDTH) if at + WIDTH / 2 <= end]
    return {
        "policy": lane.policy,
        "before": before,
        "after": steady,
        "of_ideal": steady / goal,
        "recovery_seconds": recovery(curve, moment, BAR * goal),
        "moves": len(seen.moves(moment)),
        "refused": seen.refused,
        "cpu": seen.cpu,
        "equal": seen.equal,
    }


SLOWED = Experiment(
    name="adapt-slowed",
    title=TITLE,
    note="Band join; a row costs 80 microseconds of sleep at its site. Ideal: what all sites can do together. Steady: "
    "the second half of the time from then until all input was read. Recovery: until the rate stays at 90 % of it. All "
    "policies by turns; of each the turn in the middle, and the least of all.",
    columns=(
        Column("policy", "policy"),
        Column("before", "rows/s before", ",.0f"),
        Column("after", "rows/s steady", ",.0f"),
        Column("of_ideal", "of the ideal", ".0%"),
        Column("least", "least", ".0%"),
        Column("recovery_seconds", "recovery s", ".1f"),
        Column("moves", "moves"),
        Column("refused", "refused"),
        Column("cpu", "cores busy", ".0%"),
        Column("equal", "equal"),
    ),
    measure=measure,
)
