"""`penstock scale`, `move` and `rebalance`, on files and a fake run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from cli_case import calls, penstock, run, to_files
from typer.testing import Result

from penstock.checkpoint.lock import Lock
from penstock.control.requests import Control, MoveRequest, RebalanceRequest, Request, ScaleRequest, SplitRequest
from penstock.control.status import Status
from penstock.control.status import SubqueryStatus as Subquery

Answers = Callable[[Control, Request], None]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def accept(control: Control, request: Request) -> None:
    control.answer(request, None, "as you wish")


def refuse(control: Control, request: Request) -> None:
    control.answer(request, "there is no such group", "look again")


def say_nothing(control: Control, request: Request) -> None:
    pass


class FakeRun:
    """Holds a checkpoint as a run does, and looks for requests if it is given a way to answer them."""

    def __init__(self, root: Path, answers: Answers | None = None, subqueries: int = 1) -> None:
        (root / "manifests").mkdir(parents=True)
        self.root, self.heard, self._answers = root, list[Request](), answers
        self._lock, self._over = Lock(root / "lock"), threading.Event()
        self._lock.acquire()
        self.control = Control(root, time.time())
        self.control.publish(status(subqueries))
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        while self._answers is not None and not self._over.wait(0.01):
            for request in self.control.requests():
                self.heard.append(request)
                self._answers(self.control, request)

    def let_go(self) -> None:
        self._lock.release()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self.control.close()
        self.let_go()

    @property
    def files(self) -> set[str]:
        return {path.name for path in (self.root / "control").iterdir()} - {"status.json"}


def status(subqueries: int) -> Status:
    names = [f"join {number}" for number in range(subqueries)]
    return Status("busy", "f00", 7, 0.0, 10.0, 1.0, 1.0, 0, None, tuple(Subquery(name, ()) for name in names))


@contextmanager
def running(root: str = "checkpoint", answers: Answers | None = accept, subqueries: int = 1) -> Iterator[FakeRun]:
    fake = FakeRun(Path(root), answers, subqueries)
    try:
        yield fake
    finally:
        fake.end()


def said(result: Result) -> str:
    """What a command that failed as it should says."""
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
    return result.stderr


# -- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (["scale", "checkpoint", "--sites", "5"], ScaleRequest(5)),
        (["scale", "checkpoint", "--sites", "5", "--subquery", "1"], ScaleRequest(5, 1)),
        (["move", "checkpoint", "0110", "3"], MoveRequest("0110", 3, 0)),
        (["move", "checkpoint", "*", "3", "--subquery", "2"], MoveRequest("*", 3, 2)),
        (["split", "checkpoint", "0110"], SplitRequest("0110", 0)),
        (["rebalance", "checkpoint"], RebalanceRequest()),
        (["rebalance", "checkpoint", "--subquery", "0"], RebalanceRequest(0)),
    ],
)
def test_a_request_reaches_the_run_and_its_answer_comes_back(command: list[str], wanted: Request) -> None:
    with running() as fake:
        result = penstock(*command)
    (heard,) = fake.heard
    assert replace(heard, name="") == wanted
    assert (result.exit_code, result.stdout) == (0, "as you wish\n")
    assert fake.files == set()


def test_a_refusal_is_an_error_with_its_reason() -> None:
    with running(answers=refuse) as fake:
        text = said(penstock("move", "checkpoint", "01", "1"))
    assert "the run refused the request" in text
    assert "there is no such group" in text
    assert "look again" in text
    assert fake.files == set()


def test_without_waiting_the_request_is_left_to_the_run() -> None:
    with running(answers=None) as fake:
        result = penstock("scale", "checkpoint", "--sites", "2", "--no-wait")
        assert [replace(request, name="") for request in fake.control.requests()] == [ScaleRequest(2)]
    assert (result.exit_code, "request sent" in result.stdout) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        ["scale", "checkpoint"],
        ["scale", "checkpoint", "--sites", "0"],
        ["move", "checkpoint", "01", "x"],
        ["rebalance"],
    ],
)
def test_usage_errors_are_those_of_the_command_line(arguments: list[str]) -> None:
    assert penstock(*arguments).exit_code == 2


# -- which subquery, which group -------------------------------------------------------------------------------------


def test_a_move_in_a_query_of_several_subqueries_names_one() -> None:
    with running(subqueries=2) as fake:
        text = said(penstock("move", "checkpoint", "01", "1"))
    assert "which subquery has the group?" in text
    assert "0: join 0, 1: join 1" in text
    assert fake.heard == []


def test_a_move_before_the_first_status_names_a_subquery() -> None:
    with running() as fake:
        (fake.root / "control" / "status.json").unlink()
        assert "the run has not published its status yet" in said(penstock("move", "checkpoint", "01", "1"))


@pytest.mark.parametrize("group", ["012", "", "hot", "0" * 65, "01\n"])
def test_a_group_is_written_in_bits(group: str) -> None:
    with running() as fake:
        assert "is not a group" in said(penstock("move", "checkpoint", group, "1"))
    assert fake.heard == []


# -- when no answer comes --------------------------------------------------------------------------------------------


def test_a_request_that_nobody_takes_is_taken_back() -> None:
    with running(answers=None) as fake:
        text = said(penstock("scale", "checkpoint", "--sites", "2", "--timeout", "0.2"))
        assert fake.control.requests() == []
    assert "nothing was done: the run did not answer in 0.2 s" in text


def test_a_request_that_was_taken_and_not_answered_may_have_been_done() -> None:
    with running(answers=say_nothing):
        text = said(penstock("scale", "checkpoint", "--sites", "2", "--timeout", "0.5"))
    assert "the outcome is not known" in text
    assert "penstock top" in text


def test_a_run_that_ends_is_not_waited_for() -> None:
    with running(answers=None) as fake:
        end = threading.Timer(0.3, fake.let_go)
        end.start()
        text = said(penstock("scale", "checkpoint", "--sites", "2", "--timeout", "20"))
        end.join()
    assert "nothing was done: the run has ended" in text


def test_who_stops_waiting_takes_the_request_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def press_ctrl_c(seconds: float) -> None:
        raise KeyboardInterrupt

    with running(answers=None) as fake:
        monkeypatch.setattr("penstock.cli.asking.time.sleep", press_ctrl_c)
        assert penstock("scale", "checkpoint", "--sites", "2").exit_code == 130
        assert fake.control.requests() == []


# -- which checkpoint ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [".penstock/busy-calls", "busy-calls", ".penstock", "busy.sql", "elsewhere/busy.sql"])
def test_a_checkpoint_below_the_default_folder_is_found(given: str) -> None:
    with running(".penstock/busy-calls") as fake:
        assert penstock("rebalance", given).exit_code == 0
    assert len(fake.heard) == 1


def test_of_several_checkpoints_the_one_in_use_is_meant() -> None:
    with running(".penstock/busy-ended"):
        pass
    with running(".penstock/busy-calls") as fake:
        assert penstock("rebalance", "busy.sql").exit_code == 0
    assert len(fake.heard) == 1


def test_several_running_queries_are_listed() -> None:
    with running(".penstock/busy-a") as first, running(".penstock/busy-b") as second:
        text = said(penstock("rebalance", ".penstock"))
    assert "holds several running queries" in text
    assert ".penstock/busy-a, .penstock/busy-b" in text
    assert first.heard + second.heard == []


def test_a_checkpoint_that_no_run_uses() -> None:
    with running():
        pass
    text = said(penstock("scale", "checkpoint", "--sites", "2"))
    assert "no run is using this checkpoint" in text
    assert list(Path("checkpoint/control").glob("*.request.json")) == []


def test_the_checkpoint_that_a_real_run_leaves_is_known_by_its_script() -> None:
    Path("busy.sql").write_text(calls(rows=1000) + to_files())
    assert run("busy.sql").exit_code == 0
    text = said(penstock("rebalance", "busy.sql"))
    assert "no run is using this checkpoint" in text
    assert ".penstock/busy-busy" in text


def test_a_folder_that_is_no_checkpoint() -> None:
    Path("data").mkdir()
    text = said(penstock("rebalance", "data"))
    assert "`data` is not a checkpoint" in text
    assert "it holds no manifests" in text


def test_a_near_checkpoint_is_suggested() -> None:
    with running():
        assert "did you mean `checkpoint`?" in said(penstock("rebalance", "chekpoint"))


# -- what is not trusted ---------------------------------------------------------------------------------------------


def test_a_run_without_a_control_folder_takes_no_requests() -> None:
    with running(answers=None) as fake:
        (fake.root / "control").rename(fake.root / "gone")
        assert "no query is running here" in said(penstock("rebalance", "checkpoint"))


def test_a_folder_that_others_can_write_is_not_used() -> None:
    with running(answers=None) as fake:
        (fake.root / "control").chmod(0o770)
        text = said(penstock("rebalance", "checkpoint"))
        assert fake.files == set()
    assert "cannot be trusted" in text
    assert "others can write to it" in text


def test_somebody_else_may_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    with running(answers=None) as fake:
        monkeypatch.setattr(os, "geteuid", lambda: os.stat(fake.root).st_uid + 1)
        text = said(penstock("rebalance", "checkpoint"))
        assert fake.files == set()
    assert "it belongs to another user" in text
