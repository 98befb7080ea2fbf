"""`penstock top`: what it shows, that it fits, and how it ends."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import msgspec
import pytest
from cli_case import penstock
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

import penstock as package
from penstock.checkpoint.control import Control
from penstock.checkpoint.lock import Lock
from penstock.checkpoint.status import DecisionStatus, GroupStatus, SiteStatus, Status, SubqueryStatus
from penstock.cli.top_screen import picture, rows_per_table

BEGAN = 1_700_000_000.0
_PATIENCE = 30.0  # seconds
SITES = (
    SiteStatus(200_000.0, 1.04, 40_000.0, state_bytes=1_200_000_000, groups=16, output_per_second=1_234_567, delay=2.3),
    SiteStatus(100_000.0, 0.5, 10_000.0, state_bytes=88_000_000, groups=15, output_per_second=12.0, delay=0.3504),
    SiteStatus(0.0, 0.0, 0.0, state_bytes=0, groups=1),
)
HOTTEST = (GroupStatus("0110", 0, 150_000.0, 0.81, 39_000, 900_000_000), GroupStatus("0111", 1, 9.0, 0.1, 0, 4_200))
DECISIONS = (
    DecisionStatus(1200, 0, "move 0110 from site 0 to site 1", "site 0 is busy all the time", 0.25, -0.02),
    DecisionStatus(1201, 0, "split 0111", "it is hot", refused="it is a group of one key"),
)
STATUS = Status(
    query="busy",
    fingerprint="f00",
    epoch=1234,
    began=BEGAN,
    at=BEGAN + 3661,
    rows_in_per_second=402_113.4,
    rows_out_per_second=1201.0,
    waiting=1_203_000,
    low_water_mark=datetime(2024, 1, 31, 12, tzinfo=UTC),
    subqueries=(SubqueryStatus("window join", SITES, HOTTEST),),
    decisions=DECISIONS,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shown(status: Status, width: int = 80, now: float | None = None, most: int | None = None) -> list[str]:
    """The lines of a picture, as they are on a terminal of that width."""
    console = Console(file=StringIO(), width=width, color_system=None, highlight=False)
    console.print(picture(status, status.at if now is None else now, most))
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def line_with(lines: list[str], text: str) -> str:
    (line,) = [line for line in lines if text in line]
    return line


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_the_head_tells_how_far_the_query_is() -> None:
    lines = shown(STATUS)
    assert lines[:3] == [
        "busy",
        "epoch 1,234   low-water mark 2024-01-31 12:00:00   running for 1:01:01",
        "in 402,113 rows/s   out 1,201 rows/s   waiting 1,203,000 rows",
    ]


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
    untold = replace(STATUS, groups_told=False, subqueries=(replace(STATUS.subqueries[0], hottest=()),))
    assert "groups are told of after the next epoch" in shown(untold)
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
    assert "nothing heard for 0:00:09" in shown(STATUS, now=STATUS.at + 9)[0]


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


# -- the command -----------------------------------------------------------------------------------------------------


@contextmanager
def running(status: Status | None = STATUS) -> Iterator[Lock]:
    """A run that holds the checkpoint, and has told how it is getting on."""
    Path("checkpoint/manifests").mkdir(parents=True)
    lock = Lock(Path("checkpoint/lock"))
    lock.acquire()
    control = Control(Path("checkpoint"), BEGAN)
    if status is not None:
        control.publish(status)
    try:
        yield lock
    finally:
        control.close()
        lock.release()


@pytest.mark.parametrize("width", [80, 120])
def test_once_prints_one_picture(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    fresh = replace(STATUS, at=time.time(), began=time.time() - 60)
    with running(fresh):
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 0
    assert [line.rstrip() for line in result.stdout.splitlines()] == shown(fresh, width)


def test_json_prints_the_status() -> None:
    with running():
        result = penstock("top", "checkpoint", "--json")
    (line,) = result.stdout.splitlines()
    assert msgspec.json.decode(line, type=Status) == STATUS


def test_one_picture_waits_until_groups_are_told() -> None:
    """The run tells of groups when it is watched, as one does that looks for the sign."""
    untold = replace(STATUS, groups_told=False, subqueries=(replace(STATUS.subqueries[0], hottest=()),))
    with running(untold):
        control, over = Control(Path("checkpoint"), BEGAN), threading.Event()
        control.publish(untold)

        def tell() -> None:
            while not over.wait(0.05):
                control.publish(STATUS if control.watched else untold)

        thread = threading.Thread(target=tell)
        thread.start()
        result = penstock("top", "checkpoint", "--json")
        over.set()
        thread.join()
        control.close()
    assert msgspec.json.decode(result.stdout, type=Status) == STATUS
    assert not Path("checkpoint/control/watched.json").exists()


def test_where_no_epoch_comes_groups_are_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.top._GROUPS_WAIT", 0.3)
    with running(replace(STATUS, groups_told=False)):
        result = penstock("top", "checkpoint", "--json")
    assert (result.exit_code, msgspec.json.decode(result.stdout, type=Status).groups_told) == (0, False)


def test_a_run_that_has_ended_is_not_shown() -> None:
    with running():
        pass
    result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "no run is using this checkpoint" in result.stderr


def test_a_run_that_never_told_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.cli.top._FIRST_WAIT", 0.0)
    with running(None):
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "this run has not told how it is getting on" in result.stderr


def test_a_status_of_another_version_is_said_to_be_so() -> None:
    with running():
        path = Path("checkpoint/control/status.json")
        path.write_bytes(path.read_bytes().replace(b'"epoch"', b'"era"'))
        result = penstock("top", "checkpoint", "--once")
    assert result.exit_code == 1
    assert "the status of the run cannot be read" in result.stderr


# -- on a terminal ---------------------------------------------------------------------------------------------------


# A background job of a shell ignores Ctrl-C, and so would what it starts; somebody at a terminal does not.
_TOP = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from penstock.cli.main import app
app()
"""


def watched(end: Callable[[int, subprocess.Popen[bytes]], None]) -> tuple[int, str]:
    """The exit code of `top` on a terminal of its own, and all that it wrote; `end` is done after the first picture."""
    command = [sys.executable, "-c", _TOP, "top", "checkpoint"]
    environment = os.environ | {"PYTHONPATH": str(Path(package.__file__).parent.parent), "TERM": "xterm"}
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        written, ended = b"", False
        enough = threading.Timer(_PATIENCE, process.kill)  # so that one that does not end is a failure, not a hang
        enough.start()
        try:
            while chunk := os.read(ours, 65536):
                written += chunk
                if not ended and b"window join" in written:
                    ended = True
                    end(ours, process)
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
        finally:
            enough.cancel()
            os.close(ours)
    return process.returncode, written.decode()


def test_q_ends_it() -> None:
    with running():
        code, written = watched(lambda terminal, _: os.write(terminal, b"q") and None)
    assert code == 0
    assert "the run has ended" not in written


def test_ctrl_c_ends_it() -> None:
    with running():
        code, written = watched(lambda _, process: process.send_signal(signal.SIGINT))
    assert code == 0
    assert "the run has ended" not in written


def test_the_end_of_the_run_ends_it_and_the_last_picture_stays() -> None:
    with running() as lock:
        code, written = watched(lambda _, process: lock.release())
    assert code == 0
    left = written.rpartition("\x1b[?1049l")[2]  # what is written after the screen is given back
    assert "window join" in left
    assert left.rstrip().endswith("the run has ended")
