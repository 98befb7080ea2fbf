"""Idle sources and substreams: those without rows for so long that progress no longer waits for them.

Idle differs from slow: a substream is judged just after its source was polled, so rows that wait during a long epoch
count as activity. An idle substream is excluded from the minimum of its stream, and a source that is idle as a whole
follows the other sources. If all sources are idle, everything that has arrived is complete up to the largest mark that
any of them has reached. All of this only raises the floor of a stream, below which its mark never goes back. A
substream that resumes is in the minimum again, and its rows below the mark are late rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.errors import ConfigError
from penstock.progress.mark import BEGIN, FINISHED, Mark, at, stream_mark

LULL_STEPS = 10  # the mark of an idle source advances in steps of `idle_after / LULL_STEPS`

SourceMarks = tuple[Mapping[str, Mark], Mark, bool]  # marks by substream, floor, ended


@dataclass(frozen=True)
class Activity:
    """The time at which each substream of each source last had rows, in seconds of a monotonic clock.

    Invariant: no time is before `began`, and a substream without an entry was last active at `began`. So activity
    before this run is unknown: after a restart every substream counts as active at first.
    """

    began: float
    last: tuple[Mapping[str, float], ...]

    def idle(self, source: int, name: str, after: float | None, now: float) -> bool:
        """Return whether a substream has had no rows for `after` seconds (None: never idle)."""
        return after is not None and now - self.last[source].get(name, self.began) >= after

    def idle_as_a_whole(self, source: int, after: float | None, now: float) -> bool:
        """Return whether no substream of a source has had rows for `after` seconds (None: never idle)."""
        return after is not None and now - max(self.last[source].values(), default=self.began) >= after


def begun(sources: int, now: float) -> Activity:
    """Return the activity at the start of a run, at time `now`."""
    return Activity(now, ({},) * sources)


def active_after(
    activity: Activity, shown: Sequence[Collection[str]], now: float, known: Sequence[Collection[str]] = ()
) -> Activity:
    """Return the activity after a poll of the sources at time `now`.

    `shown[n]`: the substreams of source n that have rows now, which are those of the splits it offers. `known[n]`: the
    substreams of source n that are not finished; entries of all others are dropped. Without `known` nothing is dropped.
    """
    last = [{**last, **dict.fromkeys(names, now)} for last, names in zip(activity.last, shown, strict=True)]
    kept = [_kept(last[n], {*known[n], *shown[n]}) for n in range(len(last))] if known else last
    return replace(activity, last=tuple(kept))


def _kept(last: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    """Drop the entries of substreams that are not in `names`, but keep the latest of their times under FINISHED,
    because it is the last activity of the source."""
    gone = [when for name, when in last.items() if name not in names or name == FINISHED]
    return {name: last[name] for name in names if name in last} | ({FINISHED: max(gone)} if gone else {})


def lull_mark(system_time: int, after: int, slack: int) -> Mark:
    """Return the mark that system time gives to an idle source. All arguments are in microseconds.

    A row may be delayed by `after`, and out of order by `slack` besides; so the mark continues from where the last row
    left it. It advances in steps, because each advance costs an epoch.
    """
    step = max(1, after // LULL_STEPS)
    return at((system_time - after - slack) // step * step)


def floors(
    activity: Activity,
    sources: Sequence[SourceMarks],
    idle_after: Sequence[float | None],
    now: float,
    clocks: Sequence[object] = (),
    lull_marks: Mapping[int, Mark] | None = None,
) -> tuple[Mark, ...]:
    """Return the floor of each source's mark in the next epoch; never below the current floor.

    `idle_after[n]`: the number of seconds without rows after which source n and its substreams are idle (None: never).
    An idle source follows only sources with an equal entry in `clocks`; without `clocks`, all are equal. `lull_marks`
    has the marks derived from system time, by source, of those sources that use them while they are idle.
    """
    clock, lulls = list(clocks) or [None] * len(sources), lull_marks or {}
    own = [_own_floor(activity, n, source, idle_after[n], now) for n, source in enumerate(sources)]
    left = {n for n, (_, _, ended) in enumerate(sources) if not ended}
    idle = {n for n in left if activity.idle_as_a_whole(n, idle_after[n], now)}
    own = [max(floor, lulls.get(n, BEGIN)) if n in idle else floor for n, floor in enumerate(own)]
    reached = [stream_mark(marks, False, floor) for (marks, _, _), floor in zip(sources, own, strict=True)]
    alike = {n: [m for m in range(len(sources)) if clock[m] == clock[n]] for n in idle}
    follow = {n: _followed([reached[m] for m in alike[n] if m in left - idle], reached, alike[n]) for n in idle}
    return tuple(max(floor, follow.get(n, BEGIN)) for n, floor in enumerate(own))


def _followed(active: Sequence[Mark], reached: Sequence[Mark], alike: Sequence[int]) -> Mark:
    """Return the mark that an idle source follows: the minimum of the `active` sources or, if none is active, the
    maximum that any source of the same clock has reached. A source that has ended counts with its last mark before its
    end."""
    return min(active) if active else max(reached[m] for m in alike)


def _own_floor(activity: Activity, n: int, source: SourceMarks, after: float | None, now: float) -> Mark:
    """Return the floor from a source's own substreams: the minimum of the active substreams or, if all are idle, the
    maximum."""
    marks, floor, ended = source
    if ended:
        return floor
    active = [mark for name, mark in marks.items() if not activity.idle(n, name, after, now)]
    return max(floor, min(active) if active else max(marks.values(), default=BEGIN))


def idle_timeout(microseconds: int, written: object) -> int:
    """Return the time after which a source is idle; refuse one that is not above zero. `written` is what the user
    wrote."""
    if microseconds > 0:
        return microseconds
    raise ConfigError(
        "the time after which a source is idle must be above zero",
        detail=f"it is {written!r}",
        hint="give it a length such as 10s, or leave it out to wait for the source however long it takes",
    )
