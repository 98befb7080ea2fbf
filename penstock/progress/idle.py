"""Idle sources and substreams: those that have had nothing to offer for so long that nobody waits for them any more.

Idle is not the same as slow: a substream is judged at a moment at which its source has just been asked, so that rows
which wait, however long an epoch takes, are activity. An idle substream is left out of its stream's minimum, and a
source that is idle as a whole follows the others. Where all are idle, nobody is left to wait for: what has arrived is
complete up to the largest mark that any of them has reached. All of this only raises the floor of a stream, below which
its mark never goes back; what resumes is in the minimum again, and its rows below the mark are late rows.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.progress.mark import BEGIN, Mark, at
from penstock.progress.substreams import FINISHED, stream_mark

LULL_STEPS = 10  # in a lull a mark moves on by this part of the time after which its source is idle

SourceMarks = tuple[Mapping[str, Mark], Mark, bool]  # marks of the substreams, floor, whether the source has ended


@dataclass(frozen=True)
class Activity:
    """When the substreams of each source were last active, by a clock that only goes forwards, in seconds.

    Invariant: no time is before `began`, and a substream that is not named was last active then. So nothing is known of
    the time before this run: after a restart everything is active at first.
    """

    began: float
    last: tuple[Mapping[str, float], ...]

    def idle(self, source: int, name: str, after: float | None, now: float) -> bool:
        return after is not None and now - self.last[source].get(name, self.began) >= after

    def idle_as_a_whole(self, source: int, after: float | None, now: float) -> bool:
        return after is not None and now - max(self.last[source].values(), default=self.began) >= after


def begun(sources: int, now: float) -> Activity:
    """The activity of a run that begins."""
    return Activity(now, ({},) * sources)


def active_after(
    activity: Activity, shown: Sequence[Collection[str]], now: float, known: Sequence[Collection[str]] = ()
) -> Activity:
    """`shown[n]`: the substreams of source n that have rows at the moment, which are those of the splits it offers.
    `known[n]`: its substreams that are not finished, so that the others can be forgotten."""
    last = [{**last, **dict.fromkeys(names, now)} for last, names in zip(activity.last, shown, strict=True)]
    kept = [_kept(last[n], {*known[n], *shown[n]}) for n in range(len(last))] if known else last
    return replace(activity, last=tuple(kept))


def _kept(last: Mapping[str, float], names: Collection[str]) -> dict[str, float]:
    """Forget the substreams that are gone, but not when the last of them was active: so was its source."""
    gone = [when for name, when in last.items() if name not in names or name == FINISHED]
    return {name: last[name] for name in names if name in last} | ({FINISHED: max(gone)} if gone else {})


def lull_mark(system_time: int, after: int, slack: int) -> Mark:
    """Return the mark that system time gives to a source in a lull, all in microseconds.

    A row may take as long to arrive as a lull must last (`after`), and be out of order by `slack` besides. So the mark
    goes on from where the last row left it. It moves in steps, since each of them is an epoch.
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
    """Return the floors from which the marks of all sources go on in the coming epoch; never below what the marks are.

    `idle_after[n]`: after how many seconds without rows the substreams of source n, and source n, are idle (None:
    never). Sources follow each other only where their `clocks` are equal, as they are where none are given.
    `lull_marks` are those of the sources whose mark system time carries on while they are idle.
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
    """Return the mark that an idle source takes over: the least of the `active` sources; or, where none is, the largest
    that any source has reached. One that has ended counts by its last mark before its end."""
    return min(active) if active else max(reached[m] for m in alike)


def _own_floor(activity: Activity, n: int, source: SourceMarks, after: float | None, now: float) -> Mark:
    """Return what the substreams of a source itself give: the least of those that are not idle carries it on; where all
    are, the largest does."""
    marks, floor, ended = source
    if ended:
        return floor
    active = [mark for name, mark in marks.items() if not activity.idle(n, name, after, now)]
    return max(floor, min(active) if active else max(marks.values(), default=BEGIN))
