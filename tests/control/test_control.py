"""The control folder: who may ask, what is believed, and that nothing is carried out twice or late."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from control_case import BEGAN, HOUR, Clock, files, status
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.cli.asking import ask
from penstock.control.folder import CONTROL_FORMAT, ControlFolder
from penstock.control.requests import Control, MoveRequest, RebalanceRequest, ScaleRequest
from penstock.errors import CheckpointError


def name_of(number: int) -> str:
    return f"{number:032x}"


def post(root: Path, number: int, kind: str = "scale", made: float = BEGAN + 5, **wants: Any) -> Path:
    """A request as anybody could write it."""
    letter = {"kind": kind, "made": made, "wants": wants or {"sites": 3}}
    return post_bytes(root, number, msgspec.json.encode(letter))


def post_bytes(root: Path, number: int, data: bytes) -> Path:
    path = root / "control" / f"{name_of(number)}.request.json"
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def answer(root: Path, number: int) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode((root / "control" / f"{name_of(number)}.answer.json").read_bytes())
    return found


def why_not(root: Path, number: int) -> str:
    why = answer(root, number)["why_not"]
    assert isinstance(why, str)
    return why


# -- requests --------------------------------------------------------------------------------------------------------


def test_requests_come_in_the_order_in_which_they_were_made(tmp_path: Path, control: Control) -> None:
    post(tmp_path, 1, "rebalance", BEGAN + 9, subquery=2)
    post(tmp_path, 2, "scale", BEGAN + 7, sites=5)
    post(tmp_path, 3, "move", BEGAN + 8, group="0110", site=1, subquery=0)
    assert control.requests() == [
        ScaleRequest(5, None, name_of(2)),
        MoveRequest("0110", 1, 0, name_of(3)),
        RebalanceRequest(2, name_of(1)),
    ]


def test_a_request_is_gone_before_it_is_given_out(tmp_path: Path, control: Control) -> None:
    post(tmp_path, 1)
    assert len(control.requests()) == 1
    assert files(tmp_path) == set()
    assert control.requests() == []


def test_a_run_that_dies_before_it_answers_leaves_nothing_to_be_done_again(tmp_path: Path, control: Control) -> None:
    post(tmp_path, 1)
    control.requests()
    assert Control(tmp_path, BEGAN, Clock()).requests() == []


def test_a_request_that_cannot_be_removed_is_not_given_out(
    tmp_path: Path, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(tmp_path, 1)
    with monkeypatch.context() as patched:
        patched.setattr(ControlFolder, "remove", lambda self, name: False)
        assert control.requests() == []
    assert len(control.requests()) == 1


def test_answers(tmp_path: Path, control: Control) -> None:
    post(tmp_path, 1, made=BEGAN + 5)
    post(tmp_path, 2, made=BEGAN + 6)
    first, second = control.requests()
    control.answer(first, None, "3 sites from epoch 7 on")
    control.answer(second, "there are as many sites already", "")
    assert answer(tmp_path, 1) == {"why_not": None, "detail": "3 sites from epoch 7 on"}
    assert answer(tmp_path, 2) == {"why_not": "there are as many sites already", "detail": ""}


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (BEGAN - 1, "too old: it was made before this run started"),
        (BEGAN + 2 * HOUR, "it was made in the future"),
    ],
)
def test_a_request_of_another_time_is_refused(tmp_path: Path, control: Control, made: float, why: str) -> None:
    post(tmp_path, 1, made=made)
    assert control.requests() == []
    assert why_not(tmp_path, 1).startswith(why)


@pytest.mark.parametrize(("age", "given_out"), [(HOUR - 1, True), (HOUR + 1, False)])
def test_a_request_is_good_for_an_hour(
    tmp_path: Path, control: Control, clock: Clock, age: float, given_out: bool
) -> None:
    post(tmp_path, 1, made=BEGAN)
    clock.now = BEGAN + age
    assert bool(control.requests()) == given_out
    if not given_out:
        assert why_not(tmp_path, 1) == "too old: it was made more than an hour ago"


@pytest.mark.parametrize(
    ("kind", "wants", "why"),
    [
        ("explode", {"sites": 3}, "unknown request `explode`; known: scale, move, split, rebalance"),
        ("scale", {"sites": 0}, ">= 1"),
        ("scale", {"sites": 10_001}, "<= 10000"),
        ("scale", {"sites": "3"}, "Expected `int`"),
        ("scale", {"subquery": 1}, "missing required field `sites`"),
        ("move", {"group": "012", "site": 1, "subquery": 0}, "matching regex"),
        ("move", {"group": "01\n", "site": 1, "subquery": 0}, "matching regex"),
        ("move", {"group": "0" * 65, "site": 1, "subquery": 0}, "matching regex"),
        ("move", {"group": "01", "site": -1, "subquery": 0}, ">= 0"),
        ("rebalance", {"subquery": -1}, ">= 0"),
    ],
)
def test_what_is_no_request_is_answered(
    tmp_path: Path, control: Control, kind: str, wants: dict[str, Any], why: str
) -> None:
    post(tmp_path, 1, kind, **wants)
    assert control.requests() == []
    assert why in why_not(tmp_path, 1)


def test_a_request_of_another_format_is_refused_whatever_is_in_it(tmp_path: Path, control: Control) -> None:
    post_bytes(tmp_path, 1, msgspec.json.encode({"format": CONTROL_FORMAT + 1, "sort": "scale"}))
    assert control.requests() == []
    assert f"it has format {CONTROL_FORMAT + 1}, and Penstock" in why_not(tmp_path, 1)
    assert "use one version" in why_not(tmp_path, 1)


def test_a_request_has_the_number_of_its_format_and_is_read_without_it(tmp_path: Path, control: Control) -> None:
    folder = ControlFolder(tmp_path)
    name = ask(folder, ScaleRequest(3))
    path = tmp_path / "control" / f"{name}.request.json"
    letter = msgspec.json.decode(path.read_bytes())
    assert letter.pop("format") == CONTROL_FORMAT
    path.write_bytes(msgspec.json.encode(letter | {"made": BEGAN + 5}))
    assert control.requests() == [ScaleRequest(3, None, name)]
    folder.close()


@settings(deadline=None)
@given(data=st.binary(max_size=200) | st.sampled_from([b"[" * 4000, b'{"kind":"scale"}', b"null", b'{"made":1e999}']))
def test_whatever_is_in_a_file_a_run_goes_on(data: bytes) -> None:
    with TemporaryDirectory() as folder:
        control = Control(Path(folder), BEGAN, Clock())
        post_bytes(Path(folder), 1, data)
        post(Path(folder), 2)
        assert [request.name for request in control.requests()] == [name_of(2)]
        assert "it is not a request" in why_not(Path(folder), 1)
        control.close()


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-100, 100), st.booleans()), max_size=12))
def test_every_request_is_given_out_once_or_answered(posts: list[tuple[int, bool]]) -> None:
    """`posts` are when each was made, from the start of the run, and whether the run looks after it."""
    with TemporaryDirectory() as folder:
        root, given_out = Path(folder), list[str]()
        control = Control(root, BEGAN, Clock())
        for number, (made, looks) in enumerate(posts):
            post(root, number, made=BEGAN + made)
            given_out += [request.name for request in control.requests()] if looks else []
        given_out += [request.name for request in control.requests()]
        control.close()
        good = {name_of(number) for number, (made, _) in enumerate(posts) if 0 <= made <= 70}
        assert len(given_out) == len(set(given_out))
        assert set(given_out) == good
        assert files(root) == {f"{name_of(n)}.answer.json" for n in range(len(posts)) if name_of(n) not in good}


# -- what is not believed --------------------------------------------------------------------------------------------


def test_a_link_is_not_followed(tmp_path: Path, control: Control) -> None:
    real = post(tmp_path, 1).rename(tmp_path / "elsewhere.json")
    (tmp_path / "control" / f"{name_of(1)}.request.json").symlink_to(real)
    assert control.requests() == []
    assert "cannot be opened" in why_not(tmp_path, 1)
    assert real.exists()


def test_a_pipe_does_not_hold_the_run_up(tmp_path: Path, control: Control) -> None:
    os.mkfifo(tmp_path / "control" / f"{name_of(1)}.request.json", 0o600)
    assert control.requests() == []
    assert why_not(tmp_path, 1) == "it is not a plain file"


def test_a_folder_is_no_request(tmp_path: Path, control: Control) -> None:
    (tmp_path / "control" / f"{name_of(1)}.request.json").mkdir()
    assert control.requests() == []


def test_a_large_file_is_not_read(tmp_path: Path, control: Control) -> None:
    letter = {"kind": "scale", "made": BEGAN + 5, "wants": {"sites": 3}}
    post_bytes(tmp_path, 1, msgspec.json.encode(letter) + b" " * 4096)
    assert control.requests() == []
    assert why_not(tmp_path, 1) == "it has more than 4,096 bytes"


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_request_that_others_can_write_is_refused(tmp_path: Path, control: Control, mode: int) -> None:
    post(tmp_path, 1).chmod(mode)
    assert control.requests() == []
    assert why_not(tmp_path, 1) == "others can write to it"


def test_a_request_of_another_user_is_refused(
    tmp_path: Path, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    post(tmp_path, 1)
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert control.requests() == []
    assert why_not(tmp_path, 1) == "it belongs to another user"


def test_other_names_are_left_alone(tmp_path: Path, control: Control) -> None:
    path = post(tmp_path, 1)
    others = ["x.request.json", f"{name_of(2)}.request.json.bak", f"{name_of(3)}.json", f"{'A' * 32}.request.json"]
    for other in others:
        (tmp_path / "control" / other).write_bytes(path.read_bytes())
    assert [request.name for request in control.requests()] == [name_of(1)]
    assert files(tmp_path) == set(others)


# -- the folder ------------------------------------------------------------------------------------------------------


def test_the_folder_is_for_its_owner_only(tmp_path: Path, control: Control) -> None:
    assert stat.S_IMODE(os.stat(tmp_path / "control").st_mode) == 0o700
    control.publish(status())
    assert stat.S_IMODE(os.stat(tmp_path / "control" / "status.json").st_mode) == 0o600


def refused(root: Path) -> str:
    with pytest.raises(CheckpointError, match="cannot be trusted") as caught:
        Control(root, BEGAN)
    return caught.value.detail


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "control").mkdir()
    (tmp_path / "control").chmod(mode)
    assert "others can write to it" in refused(tmp_path)


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.stat(tmp_path).st_uid + 1)
    assert "it belongs to another user" in refused(tmp_path)


def test_a_link_to_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "control").symlink_to(tmp_path / "mine")
    assert "cannot be opened as a folder" in refused(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "control").write_text("")
    assert "cannot be opened as a folder" in refused(tmp_path)


def test_a_run_goes_on_without_its_folder(tmp_path: Path, control: Control, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG", "penstock")
    post(tmp_path, 1)
    (request,) = control.requests()
    (tmp_path / "control").rmdir()
    control.answer(request, None, "done")
    control.publish(status())
    assert control.requests() == []
    lines = [(record.levelname, record.message.partition(":")[0]) for record in caplog.records]
    assert lines == [
        ("WARNING", "the answer to a request cannot be written"),
        ("DEBUG", "the status cannot be written"),
    ]


def test_what_was_left_behind_is_swept_after_an_hour(tmp_path: Path, control: Control, clock: Clock) -> None:
    left = [f"{name_of(1)}.answer.json", f".{name_of(2)}.new"]
    for name in left:
        (tmp_path / "control" / name).write_text("{}")
        os.utime(tmp_path / "control" / name, (clock.now, clock.now))
    post(tmp_path, 3)
    control.requests()
    assert files(tmp_path) == set(left)
    clock.now += HOUR + 1
    post(tmp_path, 4, made=clock.now)
    control.requests()
    assert files(tmp_path) == set()
