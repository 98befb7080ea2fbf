"""Sources that share an epoch: some figures by hand, and simulated ones that are read to their end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.balance.intake.lead import SourceLead, lowest_marks, shares, substream_shares
from penstock.progress.mark import BEGIN, END, Mark, at

ENDED = SourceLead(END, ended=True)


def standing(mark: int, waiting: int = 1000, span: float = 0.0, clock: str = "") -> SourceLead:
    return SourceLead(at(mark), waiting=waiting, span_per_row=span, clock=clock)


# -- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("max_lead", [None, 0, 60])
def test_one_source_gets_everything(max_lead: int | None) -> None:
    assert shares(900, [standing(5)], max_lead) == (900,)
    assert shares(900, [standing(5, waiting=0)], max_lead) == (900,)
    assert shares(900, [ENDED, standing(5)], max_lead) == (0, 900)


def test_without_a_bound_shares_are_even_however_far_a_source_leads() -> None:
    assert shares(900, [standing(0), standing(10**9), ENDED], None) == (450, 450, 0)


def test_a_source_that_leads_too_far_is_held_back_and_the_lowest_gets_its_rows() -> None:
    assert shares(900, [standing(0), standing(60), standing(59)], 60) == (600, 0, 300)


def test_a_leader_may_go_on_as_far_as_the_bound() -> None:
    assert shares(900, [standing(0), standing(50, span=0.1)], 60) == (800, 100)
    assert shares(900, [standing(0), standing(50, span=0.01)], 60) == (450, 450)
    assert shares(900, [standing(0), standing(50, span=25.0)], 60) == (899, 1)
    assert shares(900, [standing(0), standing(50, span=5e-324)], 60) == (450, 450)


def test_sources_that_are_level_are_not_held_back_even_where_no_lead_is_allowed() -> None:
    assert shares(900, [standing(7), standing(7), standing(8)], 0) == (600, 300, 0)


def test_a_source_with_nothing_to_read_holds_nobody_back() -> None:
    assert shares(900, [standing(0, waiting=0), standing(500), standing(600)], 60) == (300, 600, 0)
    assert shares(900, [standing(0, waiting=0), standing(500, waiting=0)], 60) == (450, 450)


def test_a_source_that_has_not_begun_but_has_rows_is_waited_for() -> None:
    assert shares(900, [SourceLead(BEGIN, waiting=5), standing(500)], 60) == (900, 0)


def test_an_ended_source_holds_nobody_back() -> None:
    assert shares(900, [replace(standing(0), ended=True), standing(500)], 60) == (0, 900)


def test_sources_of_other_clocks_do_not_lead_each_other() -> None:
    numbers = [standing(3, clock="int64"), standing(99, clock="int64")]
    assert shares(900, [standing(10**15), *numbers], 60) == (300, 600, 0)


def test_every_source_that_may_give_any_is_asked_also_where_there_are_too_few_rows() -> None:
    assert shares(1, [standing(0), standing(1), standing(70)], 60) == (2, 1, 0)


def test_the_span_of_a_row_is_measured_and_smoothed() -> None:
    begun = SourceLead(BEGIN).asked(10, 10, 90).reached(at(1000), False)
    assert begun.span_per_row == 0  # there is no span from the beginning of time
    once = begun.asked(10, 10, 80).reached(at(1040), False)
    assert once.span_per_row == 4
    assert once.asked(10, 5, 75).reached(at(1050), False).span_per_row == 3
    assert once.asked(10, 0, 0).reached(at(9999), False).span_per_row == 4  # it was not its rows that carried it on
    assert once.asked(10, 10, 0).reached(END, True).span_per_row == 4


def test_what_a_source_gives_says_whether_more_is_waiting() -> None:
    source = standing(0, waiting=7)
    assert source.asked(10, 10, 0).waiting == 1  # it gave all it was asked for, and cannot tell
    assert source.asked(10, 4, 0).waiting == 0
    assert source.asked(10, 4, 30).waiting == 30
    assert source.asked(10, 0, 30).waiting == 0  # it told of rows and gave none
    assert source.asked(0, 0, 0).waiting == 7  # nobody asked


# -- any standings -------------------------------------------------------------------------------------------------

times = st.integers(-100, 100) | st.sampled_from([-(2**63), 2**63 - 1])
spans = st.floats(0, 50, allow_subnormal=True)
open_ones = st.builds(standing, times, st.integers(0, 50), spans, st.sampled_from(["", "", "int64"]))
standings = st.lists(open_ones | st.just(ENDED), min_size=1, max_size=6)
bounds = st.none() | st.integers(0, 120)


@given(st.integers(1, 1000), standings, bounds)
def test_the_shares_are_together_what_an_epoch_may_take_in(
    rows: int, sources: list[SourceLead], bound: int | None
) -> None:
    found = shares(rows, sources, bound)
    left = sum(not source.ended for source in sources)
    assert sum(found) <= max(rows, left)
    assert all(share == 0 for share, source in zip(found, sources, strict=True) if source.ended)
    if any(source.waiting for source in sources):
        assert any(share for share, source in zip(found, sources, strict=True) if source.waiting)


@given(st.integers(1, 1000), standings, bounds)
def test_the_lowest_gets_at_least_an_even_share(rows: int, sources: list[SourceLead], bound: int | None) -> None:
    found = shares(rows, sources, bound)
    left = [n for n, source in enumerate(sources) if not source.ended]
    for having_rows in ([n for n in left if sources[n].waiting], left):
        if having_rows:
            lowest = min(having_rows, key=lambda n: sources[n].mark)
            assert found[lowest] >= max(1, rows // len(left))


@given(st.integers(1, 1000), standings, st.integers(0, 120))
def test_who_leads_too_far_gets_nothing(rows: int, sources: list[SourceLead], bound: int) -> None:
    found = shares(rows, sources, bound)
    for source, share in zip(sources, found, strict=True):
        rivals = [other.mark.at for other in sources if other.clock == source.clock and other.waiting]
        lead = source.mark.at - min(rivals, default=source.mark.at)
        if not source.ended:
            assert (share == 0) == (lead > 0 and lead >= bound)


# -- substreams ------------------------------------------------------------------------------------------------------


def test_a_substream_that_leads_too_far_waits_and_the_lowest_gets_its_share() -> None:
    parts = {"low": standing(0), "near": standing(30, span=1.0), "far": standing(100)}
    assert substream_shares(90, parts, None, 60) == {"low": 60, "near": 30, "far": 0}
    assert substream_shares(90, {}, at(5), 60) == {}


def test_a_substream_may_not_lead_other_sources_too_far_either() -> None:
    assert lowest_marks([standing(-20), standing(70), standing(-99, waiting=0)]) == {"": at(-20)}
    parts = {"low": standing(0), "near": standing(30, span=1.0), "far": standing(45)}
    assert substream_shares(90, parts, at(-20), 60) == {"low": 80, "near": 10, "far": 0}
    assert substream_shares(90, parts, at(7), 60) == {"low": 30, "near": 30, "far": 30}


@given(st.integers(1, 1000), st.dictionaries(st.integers(), open_ones, min_size=1, max_size=5), st.integers(0, 120))
def test_the_lowest_substream_always_comes_on(rows: int, known: dict[int, SourceLead], bound: int) -> None:
    parts = {str(name): one for name, one in known.items()}
    found = substream_shares(rows, parts, None, bound)
    least = min(one.mark for one in parts.values())
    assert any(found[name] >= max(1, rows // len(parts)) for name, one in parts.items() if one.mark == least)
    assert sum(found.values()) <= max(rows, len(parts))
    for name, one in parts.items():
        assert (found[name] == 0) == (one.mark > least and one.mark.at - least.at >= bound)


# -- simulated sources ---------------------------------------------------------------------------------------------


@dataclass
class Feed:
    """A source of rows at known times. It gives whole splits of `grain` rows, at least one; `tells` how many wait; its
    mark stays `slack` behind; with `open_end` it never ends."""

    times: Sequence[int]
    grain: int = 1
    slack: int = 0
    tells: bool = True
    open_end: bool = False
    read: int = 0
    standing: SourceLead = field(default_factory=lambda: SourceLead(BEGIN))

    @property
    def left(self) -> int:
        return len(self.times) - self.read

    @property
    def mark(self) -> Mark:
        return at(max(self.times[: self.read]) - self.slack) if self.read else BEGIN

    def step(self, share: int) -> int:
        """Give rows to an epoch and see how far they bring it; the rows it gave."""
        gives = min(self.left, max(1, share // self.grain) * self.grain) if share else 0
        self.read += gives
        asked = self.standing.asked(share, gives, self.left if self.tells else 0)
        ended = not self.left and not self.open_end
        self.standing = asked.reached(END if ended else self.mark, ended)
        return gives


def epochs(feeds: Sequence[Feed], rows: int, max_lead: int | None) -> Iterator[tuple[list[SourceLead], list[int]]]:
    """What the sources give, epoch by epoch, until nothing is left, and where they stood before."""
    while any(feed.left for feed in feeds):
        before = [feed.standing for feed in feeds]
        yield before, [feed.step(s) for feed, s in zip(feeds, shares(rows, before, max_lead), strict=True)]


def leads(sources: Sequence[SourceLead]) -> int:
    """By how much the first of the sources that can go on leads the last."""
    marks = [source.mark.at for source in sources if source.waiting and not source.ended]
    return max(marks) - min(marks) if marks else 0


@st.composite
def feeds(draw: st.DrawFn) -> Feed:
    gaps = draw(st.lists(st.integers(-5, 40), max_size=40))
    times = [draw(st.integers(0, 500)) + sum(gaps[:n]) for n in range(len(gaps))]
    return Feed(times, draw(st.integers(1, 9)), draw(st.integers(0, 30)), draw(st.booleans()), draw(st.booleans()))


@settings(max_examples=150)
@given(st.lists(feeds(), min_size=2, max_size=3), st.integers(1, 30), bounds)
def test_sources_never_wait_for_each_other_for_ever(some: list[Feed], rows: int, bound: int | None) -> None:
    empty = 0
    for _, gave in epochs(some, rows, bound):
        empty = 0 if any(gave) else empty + 1
        # A source that gave all it was asked for is taken to have more; that it has none is found out by asking once.
        assert empty <= sum(feed.open_end for feed in some)


@settings(max_examples=150)
@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 120)), min_size=2, max_size=3),
    st.integers(3, 40),
    st.integers(0, 200),
)
def test_no_source_leads_further_than_the_bound_and_one_epoch(
    kinds: list[tuple[int, int]], rows: int, bound: int
) -> None:
    """Each source has rows at an even distance. The first two epochs are for measuring it."""
    worth = rows * max(span for span, _ in kinds)
    run = epochs([Feed(range(0, span * count, span)) for span, count in kinds], rows, bound)
    for before, after in pairwise([before for before, _ in run][2:]):
        if all(source.span_per_row for source in before if source.waiting):
            assert leads(after) <= max(leads(before), bound + worth)
            _check_followers(before, after, bound)


def _check_followers(before: Sequence[SourceLead], after: Sequence[SourceLead], bound: int) -> None:
    """A source that leads stays within the bound of where the lowest stood, but for one row."""
    lowest = min((source.mark.at for source in before if source.waiting), default=None)
    for was, now in zip(before, after, strict=True):
        if lowest is not None and was.mark.at > lowest and now.mark.at > was.mark.at and not now.ended:
            assert now.mark.at <= lowest + bound + was.span_per_row


def test_a_sparse_source_does_not_run_ahead_of_a_dense_one() -> None:
    """One has a row a second, the other ten; both have 1000 s of them, and an epoch takes in 200 rows."""

    def furthest(max_lead: int | None) -> tuple[int, int]:
        run = list(epochs([Feed(range(1000)), Feed([n // 10 for n in range(10_000)])], 200, max_lead))
        return max(leads(before) for before, _ in run), len(run)

    assert furthest(None) == (810, 55)
    assert furthest(300) == (283, 56)
    assert furthest(100) == (180, 56)  # two epochs were spent on learning how long a row is


def test_a_source_that_falls_silent_does_not_stop_the_others() -> None:
    silent, busy = Feed(range(10), open_end=True), Feed(range(0, 5000, 5))
    gave = [gave[1] for _, gave in epochs([silent, busy], 20, 60)]
    assert sum(gave) == 1000
    assert all(gave)
