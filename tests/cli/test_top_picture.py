"""The picture of `penstock top`: what it shows, and that it fits."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from top_case import BEGAN, DECISIONS, HOTTEST, SITES, STATUS, shown

from penstock.cli.top_screen import rows_per_table
from penstock.control.status import DecisionStatus, GroupStatus, SiteStatus, Status, SubqueryStatus


def line_with(lines: list[str], text: str) -> str:
    (line,) = [line for line in lines if text in line]
    return line


def test_the_head_tells_how_far_the_query_is() -> None:
    lines = shown(STATUS)
    assert lines[:4] == [
        "busy",
        "epoch 1,234   low-water mark 2024-01-31 12:00:00   running for 1:01:01",
        "in 402,113 rows/s   out 1,201 rows/s   waiting 1,203,000 rows",
        "disk 1.3 GB",
    ]


def test_the_head_tells_how_much_disk_may_be_used() -> None:
    assert shown(replace(STATUS, disk_limit=100_000_000_000))[3] == "disk 1.3 GB of 100 GB"


def test_sites_have_bars_in_proportion() -> None:
    lines = shown(STATUS)
    assert "subquery 0: window join  3 sites, 32 groups" in lines
    full, half, idle = (line_with(lines, figure) for figure in ("1.2 GB", "88 MB", "0 B"))
    assert full.split() == ["0", "200,000", "█" * 16, "104", "%", "█" * 16, "40,000", "1.2", "GB", "16"]
    assert half.split() == ["1", "100,000", "█" * 8, "50", "%", "█" * 4, "10,000", "88", "MB", "15"]
    assert idle.split() == ["2", "0", "0", "%", "0", "0", "B", "1"]


def test_a_wide_terminal_also_shows_output_and_delay() -> None:
    full, half, idle = (line_with(shown(STATUS, 100), figure) for figure in ("1.2 GB", "88 MB", "0 B"))
    assert full.split()[1:3] + full.split()[7:-3] == ["200,000", "1,234,567", "40,000", "2.3", "s"]
    assert half.split()[1:3] + half.split()[7:-3] == ["100,000", "12", "10,000", "350", "ms"]
    assert idle.split() == ["2", "0", "0", "0", "%", "0", "0", "ms", "0", "B", "1"]


@pytest.mark.parametrize(
    ("delay", "text"), [(0.0, "0 ms"), (0.9996, "1.0 s"), (99.9, "99.9 s"), (100, "2 min"), (7200, "2 h")]
)
def test_a_delay_has_the_unit_that_suits_it(delay: float, text: str) -> None:
    one = replace(STATUS.subqueries[0], sites=(replace(SITES[0], delay=delay),))
    assert f" {text} " in line_with(shown(replace(STATUS, subqueries=(one,)), 100), "1.2 GB")


def test_keys_that_are_spread_are_told() -> None:
    spread = replace(STATUS, subqueries=(replace(STATUS.subqueries[0], spread_keys=2),))
    assert "subquery 0: window join  3 sites, 32 groups, 2 keys at several sites" in shown(spread)


def test_a_backlog_is_measured_by_what_may_be_pending() -> None:
    bounded = replace(STATUS, subqueries=(replace(STATUS.subqueries[0], capacity=80_000),))
    assert line_with(shown(bounded), "1.2 GB").split()[5] == "█" * 8


def test_the_hottest_groups() -> None:
    lines = shown(STATUS)
    assert line_with(lines, "900 MB").split() == ["0", "150,000", "0110", "81", "%", "39,000", "900", "MB"]
    assert line_with(lines, "4.2 kB").split() == ["1", "9", "0111", "10", "%", "0", "4.2", "kB"]


def test_a_few_groups_are_shown_and_none_that_has_nothing_to_do() -> None:
    groups = [GroupStatus(f"{number:08b}", 0, 1.0, 0.1, 0, 1) for number in range(100)]
    waiting, resting = GroupStatus("1111111", 0, 0.0, 0.0, 7, 1), GroupStatus("1111110", 0, 0.0, 0.0, 0, 1)
    lines = shown(replace(STATUS, subqueries=(SubqueryStatus("join", SITES, tuple(groups)),)))
    assert len([line for line in lines if "10 %" in line]) == 8
    lines = shown(replace(STATUS, subqueries=(SubqueryStatus("join", SITES, (waiting, resting)),)))
    assert line_with(lines, "1111111")
    assert not [line for line in lines if "1111110" in line]


def test_before_groups_are_told_of_that_is_said() -> None:
    untold = replace(STATUS, has_group_statistics=False, subqueries=(replace(STATUS.subqueries[0], hottest=()),))
    assert "groups are shown after the next epoch" in shown(untold)
    assert line_with(shown(untold), "1.2 GB")


def test_decisions_tell_what_came_of_them_the_newest_first() -> None:
    lines = shown(STATUS)
    assert lines[lines.index("decisions") + 1 :] == [
        "1,201 split 0111",
        "      refused: it is a group of one key  it is hot",
        "1,200 move 0110 from site 0 to site 1",
        "      predicted 25 %  measured -2 %  site 0 is busy all the time",
    ]


def test_in_a_query_of_several_subqueries_a_decision_names_its_own() -> None:
    lines = shown(replace(STATUS, subqueries=STATUS.subqueries * 2))
    assert "1,201 subquery 0: split 0111" in lines


def test_a_status_that_stays_the_same_is_said_to_be_old() -> None:
    assert "no status for 0:00:09" in shown(STATUS, now=STATUS.at + 9)[0]


def test_where_not_all_sites_fit_the_busiest_are_shown() -> None:
    lines = shown(STATUS, most=1)
    assert line_with(lines, "1.2 GB")
    assert line_with(lines, "and 2 less busy")
    assert not [line for line in lines if "88 MB" in line]


def test_what_could_steer_the_terminal_is_not_shown() -> None:
    status = replace(STATUS, query="a\x1b[2Jb", decisions=(DecisionStatus(1, 0, "c\x9bd", "e\nf", refused="g\rh"),))
    lines = shown(status)
    assert lines[0] == "a?[2Jb"
    assert lines[-2:] == ["1 c?d", "  refused: g?h  e?f"]


# -- that it fits ----------------------------------------------------------------------------------------------------

rates, parts, counts = st.floats(0, 9_999_999), st.floats(0, 9.99), st.integers(0, 99_999_999)
bits = st.text("01", min_size=1, max_size=64)
waits = st.floats(0, 1e9)
sites = st.builds(
    SiteStatus, rates, parts, st.floats(0, 99_999_999), st.integers(0, 10**15), st.integers(0, 99_999), rates, waits
)
groups = st.builds(GroupStatus, bits, st.integers(0, 9_999), rates, parts, counts, st.integers(0, 10**15))
gains = st.none() | st.floats(-9, 1)
decisions = st.builds(
    DecisionStatus, counts, st.integers(0, 9), st.text(), st.text(), gains, gains, st.none() | st.text()
)
subqueries = st.builds(
    SubqueryStatus, st.text(), st.lists(sites, max_size=30).map(tuple), st.lists(groups, max_size=9).map(tuple), counts
)
statuses = st.builds(
    Status, st.text(), st.text(), counts, st.just(BEGAN), st.floats(BEGAN, 2 * BEGAN), rates, rates, counts,
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.datetimes(timezones=st.just(UTC)),
    st.lists(subqueries, max_size=3).map(tuple), st.lists(decisions, max_size=12).map(tuple),
)  # fmt: skip


@settings(deadline=None, max_examples=50)
@given(statuses, st.sampled_from([80, 100, 120]))
def test_every_status_can_be_shown(status: Status, width: int) -> None:
    lines = shown(status, width)
    assert max(map(cell_len, lines)) <= width
    assert all(letter.isprintable() for line in lines for letter in line)
    for number, subquery in enumerate(status.subqueries):
        start = next(n for n, line in enumerate(lines) if line.startswith(f"subquery {number}: "))
        table = lines[start + 2 : start + 2 + len(subquery.sites)]
        assert [line.split()[0] for line in table] == [str(site) for site in range(len(subquery.sites))]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 2), st.integers(0, 60), st.integers(0, 30), st.integers(24, 60))
def test_a_picture_fits_the_height_of_the_terminal(several: int, sites: int, decided: int, height: int) -> None:
    subquery = SubqueryStatus("join", SITES[:1] * sites, HOTTEST)
    status = replace(STATUS, subqueries=(subquery,) * several, decisions=DECISIONS * decided)
    assert len(shown(status, most=rows_per_table(status, height))) <= height


def test_headings_stand_over_their_figures() -> None:
    lines = shown(STATUS, 100)
    heading, busiest = line_with(lines, "backlog"), line_with(lines, "1.2 GB")
    for name, figure in (("busy", "104 %"), ("backlog", "40,000"), ("state", "1.2 GB"), ("groups", "16")):
        assert heading.index(name) + len(name) == busiest.rindex(figure) + len(figure)
    heading, hottest = line_with(lines, "hottest groups"), line_with(lines, "900 MB")
    assert heading.index("busy") + 4 == hottest.index("81 %") + 4


def test_groups_are_sorted_by_load() -> None:
    loads = {"000": 0.2, "001": 0.9, "010": 0.5}
    groups = tuple(GroupStatus(bits, 0, 1.0, load, 0, 1) for bits, load in loads.items())
    lines = shown(replace(STATUS, subqueries=(SubqueryStatus("join", SITES, groups),)))
    assert [bits for line in lines for bits in loads if f" {bits} " in line] == ["001", "010", "000"]
