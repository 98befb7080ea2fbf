"""The written format: every field is required and no other is accepted, each format has a reader or is refused with
what to do, and a checkpoint of an older format is continued in the present one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from manifest_case import full_manifest, write_body

from penstock.checkpoint import format_5
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import FORMAT, READERS, FormatReader, encode
from penstock.errors import CheckpointError, CorruptCheckpointError
from penstock.testing.ways import Way
from tests.support.crashes import assert_exact, finish, launch
from tests.support.golden import FOLDER, GoldenPlace, copied, golden_cases

NOT_OBJECTS = ("progress", "marks", "folders", "published")  # JSON objects whose names are data; marks of sources


def _body() -> Any:
    return json.loads(encode(full_manifest()))["body"]


def _objects(value: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every object of the format in a body, with its path."""
    match value:
        case dict():
            yield path, value
            for name, part in value.items():
                if name not in NOT_OBJECTS or isinstance(part, list):
                    yield from _objects(part, f"{path}.{name}")
        case list():
            for part in value[:1]:
                yield from _objects(part, f"{path}[]")


PATHS = [path for path, _ in _objects(_body())]
FIELDS = [(path, name) for path, found in _objects(_body()) for name in found if (path, name) != ("$", "format")]


def _refusal(body: Any, folder: Path) -> CheckpointError:
    write_body(folder, 7, json.dumps(body, separators=(",", ":")).encode())
    with pytest.raises(CorruptCheckpointError) as caught:
        manifests.read(folder, 7)
    assert manifests.file_name(7) in caught.value.what
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("path", "name"), FIELDS)
def test_a_field_that_is_missing_is_named(path: str, name: str, tmp_path: Path) -> None:
    body = _body()
    del dict(_objects(body))[path][name]
    assert f"missing required field `{name}`" in _refusal(body, tmp_path).detail


@pytest.mark.parametrize("path", PATHS)
def test_a_field_that_is_unknown_is_named(path: str, tmp_path: Path) -> None:
    body = _body()
    dict(_objects(body))[path]["whatever"] = 1
    assert "unknown field `whatever`" in _refusal(body, tmp_path).detail


@pytest.mark.parametrize(("path", "name"), FIELDS)
def test_a_field_of_another_type_is_named(path: str, name: str, tmp_path: Path) -> None:
    body = _body()
    found = dict(_objects(body))[path]
    found[name] = 0 if isinstance(found[name], str) else "text"
    detail = _refusal(body, tmp_path).detail
    assert "Expected" in detail
    assert f".{name}" in detail


def _renumbered(name: str, number: int, root: Path) -> GoldenPlace:
    """Copy a golden checkpoint, with another number of format in its manifest."""
    place = copied(name, root)
    (path,) = (place.checkpoint / "manifests").iterdir()
    body = path.read_bytes().partition(b'"body":')[2][:-1]
    renumbered = body.replace(b'{"format":%d,' % FORMAT, b'{"format":%d,' % number, 1)
    write_body(path.parent, int(path.stem), renumbered)
    return place


@pytest.mark.parametrize(
    ("number", "what", "hint"),
    [
        (FORMAT + 1, "a newer version of Penstock has written it", "run the query with the newer version"),
        (min(READERS) - 1, "no longer reads", "finish the query with the older version that wrote it"),
    ],
    ids=["newer", "older"],
)
def test_a_checkpoint_of_a_format_that_is_not_read_is_refused_with_what_to_do(
    number: int, what: str, hint: str, tmp_path: Path
) -> None:
    place, case = _renumbered("windows", number, tmp_path), golden_cases()["windows"]
    before = {path: path.read_bytes() for path in place.checkpoint.rglob("*.*")}
    with pytest.raises(CheckpointError, match=f"format {number}") as caught:
        launch(case.scenario, place, Way())
    assert not isinstance(caught.value, CorruptCheckpointError)
    assert what in caught.value.what
    assert f"reads format {min(READERS)} and format {FORMAT}" in caught.value.detail
    assert str(place.checkpoint) in caught.value.detail
    assert hint in caught.value.hint
    assert {path: path.read_bytes() for path in place.checkpoint.rglob("*.*")} == before


@pytest.mark.parametrize("number", [True, None, "5", 5.5, [5]])
def test_a_format_that_is_not_a_number_is_refused(number: Any, tmp_path: Path) -> None:
    assert "format" in _refusal(_body() | {"format": number}, tmp_path).detail


def test_a_checkpoint_of_an_older_format_is_continued_in_the_present_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its old manifests, which are kept for a while, are read by the reader of their own format, too."""
    read = list[str]()

    def manifest(body: bytes) -> Any:
        read.append("manifest")
        return format_5.read(body)

    def names(body: bytes) -> set[str]:
        read.append("names")
        return format_5.names(body)

    monkeypatch.setitem(READERS, format_5.NUMBER, FormatReader(manifest, names))
    place = copied("sessions", tmp_path, FOLDER / f"format-{format_5.NUMBER}")
    case = golden_cases()["sessions"]
    finish(case.scenario, place, case.way)
    assert_exact(case.scenario, place)
    assert set(read) == {"manifest", "names"}
    written = [json.loads(path.read_bytes())["body"]["format"] for path in (place.checkpoint / "manifests").iterdir()]
    assert set(written) == {FORMAT}


def test_every_format_that_is_read_has_golden_checkpoints() -> None:
    assert max(READERS) == FORMAT
    assert {path.name for path in FOLDER.iterdir()} == {f"format-{number}" for number in READERS}
