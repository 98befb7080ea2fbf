"""Golden checkpoints: half a run that an earlier version has written is continued to the batch answer, and a manifest
is written as it always was, byte by byte."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from manifest_case import full_manifest

import penstock as ps
from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import encode
from penstock.engine.driver.recovery import QUERY_FORMAT
from penstock.errors import CheckpointError
from penstock.state.model import Manifest, SiteState
from penstock.testing.ways import Way, random_way
from tests.support.crashes import assert_exact, finish, launch, newest_manifest, published
from tests.support.golden import FOLDER, PRESENT, GoldenPlace, GoldenScenario, begin, copied, golden_cases

CASES = golden_cases()


def _recorded(folder: Path) -> Iterator[Path]:
    yield folder / "manifest.json"
    yield from sorted(folder.glob("*/manifests/*.json"))


GOLDEN = sorted(path for path in FOLDER.glob("format-*/*") if path.is_dir())


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_golden_checkpoint_is_continued_to_the_batch_answer(golden: Path, random: Random, tmp_path: Path) -> None:
    folder, name = golden.parent, golden.name
    case = CASES[name]
    ways = [case.way, Way(), replace(random_way(random), hash_bits=case.way.hash_bits)]
    for number, way in enumerate(ways):
        place = copied(name, tmp_path / str(number), folder)
        before = published(place.results, case.scenario.stream.schema).num_rows
        finish(case.scenario, place, way)
        assert_exact(case.scenario, place, f"{name} of {folder.name}, continued with {way}")
        assert published(place.results, case.scenario.stream.schema).num_rows > before > 0


def test_every_format_that_is_written_has_its_golden_checkpoints() -> None:
    assert {path.name for path in PRESENT.iterdir() if path.is_dir()} == set(CASES), "run tools/golden.py"


def test_golden_checkpoints_hold_all_that_a_manifest_can_name() -> None:
    found = {name: newest_manifest(PRESENT / name) for name in CASES}
    assert all(not manifest.finished for manifest in found.values())
    assert {output.partition("/")[0] for m in found.values() for output in m.published} == {"results", "bad"}
    assert {file.output.partition("/")[0] for m in found.values() for file in m.staged} == {"results", "late"}
    assert all(any(site.slices for site in _sites(manifest)) for manifest in found.values())
    assert any(site.pending for site in _sites(found["join"]))
    assert found["join"].subqueries[0].directory.spread
    assert any(len(parked.generations) > 1 for site in _sites(found["parked-join"]) for parked in site.parked)
    assert any(site.active for site in _sites(found["parked-join"]))
    assert any(site.held for site in _sites(found["theta-join-in-order"]))
    assert found["theta-join-in-order"].subqueries[0].directory.grid
    assert any(len(site.marks) > 1 for site in _sites(found["windows"])), "no closings are pending"


def _sites(manifest: Manifest) -> list[SiteState]:
    return [site for state in manifest.subqueries for site in state.sites]


def test_a_manifest_is_written_as_it_was_recorded_byte_by_byte() -> None:
    recorded = (PRESENT / "manifest.json").read_bytes()
    assert encode(full_manifest()) == recorded
    assert manifests.decode(Path(manifests.file_name(7)), recorded) == full_manifest()


def test_every_golden_manifest_is_read_and_written_again_byte_by_byte() -> None:
    for path in _recorded(PRESENT):
        data = path.read_bytes()
        name = path.name if path.parent.name == "manifests" else manifests.file_name(7)
        assert encode(manifests.decode(Path(name), data)) == data, path


def _difference(place: GoldenPlace) -> str:
    """Start another query on a golden checkpoint, and return what the error shows."""
    other = GoldenScenario(CASES["windows"].scenario.stream.where(ps.col("n") > 1))
    with pytest.raises(CheckpointError, match="belongs to another query") as caught:
        launch(other, place, Way())
    return caught.value.detail


def test_a_query_file_has_a_format_and_is_read_without_one(tmp_path: Path) -> None:
    place = copied("windows", tmp_path, FOLDER / "format-5")
    path = place.checkpoint / "query.json"
    recorded = json.loads(path.read_bytes())
    assert "format" not in recorded, "the golden one has none"
    assert "\n  + " in _difference(place), "the line that this query has and the other has not"
    path.write_text(json.dumps(recorded | {"format": QUERY_FORMAT + 1}))
    assert "query.json says which" in _difference(place), "what is in it is not known"
    fresh = GoldenPlace(tmp_path / "fresh")
    begin(CASES["windows"], fresh)
    assert json.loads((fresh.checkpoint / "query.json").read_bytes()) == recorded | {"format": QUERY_FORMAT}
