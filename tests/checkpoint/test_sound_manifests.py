"""A manifest that cannot be true is refused, whatever its checksum says."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from manifest_case import CHECKSUM, RUN, STAGED, manifest_of, write_body

from penstock.checkpoint import manifest as manifests
from penstock.checkpoint.format import encode
from penstock.checkpoint.store import Checkpoint, contradictions
from penstock.errors import CorruptCheckpointError
from penstock.progress.mark import END, Mark, at
from penstock.state.directory import uniform
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange
from penstock.state.hot_keys import Cells
from penstock.state.model import Manifest, ParkedRange, RangeMark, SiteState, SourceState, SubqueryState, Totals
from penstock.state.runs import RunFile, Slice

HALF = HASH_END // 2
LOW, HIGH = HashRange(0, HALF), HashRange(HALF, HASH_END)


def _site(part: HashRange, *ranges: HashRange, run: RunFile = RUN) -> SiteState:
    return SiteState(tuple(Slice(run, piece) for piece in ranges), (RangeMark(part, (at(3),)),))


def _manifest(*sites: SiteState, **changes: Any) -> Manifest:
    state = SubqueryState(uniform(2, 1), sites or (_site(LOW, LOW), _site(HIGH, HIGH)))
    return manifest_of(3, state, **changes)


def _marked(*marks: RangeMark) -> Manifest:
    return _manifest(replace(_site(LOW), marks=marks), _site(HIGH))


def _source(**changes: Any) -> Manifest:
    return _manifest(sources=(replace(SourceState(None, {}, False), **changes),))


def _parked(*parked: ParkedRange, active: bool = False) -> Manifest:
    site = replace(_site(LOW), parked=parked, active=(Slice(RUN, LOW),) if active else ())
    return _manifest(site, _site(HIGH))


def _run(**changes: Any) -> Manifest:
    return _manifest(_site(LOW, LOW, run=replace(RUN, **changes)), _site(HIGH))


def test_a_manifest_of_ours_has_no_contradiction() -> None:
    spread = uniform(2, 1).spread_over(Cells(HALF - 1, 0, (0, 1)))
    ranges = (HashRange(0, HALF), HashRange(HALF - 1, HASH_END))
    sites = tuple(SiteState((Slice(RUN, part),), (RangeMark(part, (END,)),)) for part in ranges)
    for manifest in (_manifest(), replace(_manifest(), subqueries=(SubqueryState(spread, sites),))):
        assert list(contradictions(manifest)) == []


WRONG: dict[str, Manifest] = {
    "a total cannot be -1": _manifest(totals=Totals(rows_in=-1)),
    "a total cannot be 9223372036854775808": _manifest(totals=Totals(rows_out=2**63)),
    "a total cannot be -2": _manifest(asked_sites=-2),
    "a total cannot be -3": _manifest(totals=Totals(late_rows=-3)),
    "a total cannot be -4": _manifest(totals=Totals(bad_rows=-4)),
    "the number of rows of a source cannot be -1": _source(rows=-1),
    "9223372036854775808 is not a mark": _source(marks={"a": Mark(False, 2**63)}),
    "-9223372036854775809 is not a mark": _source(floor=Mark(False, -(2**63) - 1)),
    "5 is not a mark": _source(floor=Mark(True, 5)),
    "which is not an output": _manifest(staged=(replace(STAGED, output="late"),)),
    "the number of rows of e": _manifest(staged=(replace(STAGED, rows=-2),)),
    "the size of e": _manifest(staged=(replace(STAGED, size=-1),)),
    "the checksum of e": _manifest(staged=(replace(STAGED, checksum="none"),)),
    "`late` was published by epoch 9": _manifest(published={"late": 9}),
    "`late` was published by epoch 2": _manifest(published={"late": 2}),
    "`results` was published by epoch 9": _manifest(published={"results": 9}),
    "`results` was published by epoch -1": _manifest(published={"results": -1}),
    "the state of 10001 sites": _manifest(subqueries=(SubqueryState(uniform(10_001, 1), (_site(LOW),) * 10_001),)),
    "the state of 1 sites, and a directory of 2": _manifest(_site(EVERYTHING)),
    "is not a range of hashes": _manifest(_site(LOW, HashRange(5, 5)), _site(HIGH)),
    "0 to 36893488147419103232 is not a range": _manifest(_site(LOW, HashRange(0, 2**65)), _site(HIGH)),
    "do not cover its hashes": _manifest(_site(HashRange(0, HALF - 1)), _site(HIGH)),
    "or some of them twice": _marked(RangeMark(LOW, (at(3),)), RangeMark(LOW, (at(4),))),
    "0 to 36893488147419103233 is not a range": _marked(RangeMark(HashRange(0, 2**65 + 1), (at(3),))),
    "-7 to 9 is not a range": _manifest(_site(LOW, HashRange(-7, 9)), _site(HIGH)),
    "9223372036854775809 is not a mark": _marked(RangeMark(LOW, (Mark(False, 2**63 + 1),))),
    "9223372036854775810 is not a mark": _manifest(replace(_site(LOW), released=Mark(False, 2**63 + 2)), _site(HIGH)),
    "the port of e": _run(port=-1),
    "cannot have 0 rows": _run(rows=0),
    "cannot have 3 rows in 2 bytes": _run(size=2),
    "in 9223372036854775808 bytes": _run(size=2**63),
    "the times of e": _run(min_time=1),
    "the times of e000000000003-q0": _run(max_time=2**63),
    "the times of e000000000003-q0-s0": _run(min_time=-(2**63) - 1),
    "the checksums of e": _run(checksum="xyz"),
    "the checksums of e000000000003-q0-s0-ä.arrow are not valid": _run(blocks=CHECKSUM * 2),
    "are stored twice": _manifest(_site(LOW, EVERYTHING), _site(HIGH, HIGH)),
    "rows of e000000000003-q0-s0-ä.arrow are stored twice": _manifest(_site(LOW, LOW, LOW), _site(HIGH)),
    "it has two descriptions of e": _manifest(_site(LOW, LOW), _site(HIGH, HIGH, run=replace(RUN, rows=4))),
    "parked ranges of a site overlap": _parked(ParkedRange(LOW, ((),)), ParkedRange(HashRange(HALF - 1, HALF), ((),))),
    "or have no marks": _parked(ParkedRange(HashRange(HALF - 1, HALF + 1), ((),))),
    "9 to 9 is not a range": _parked(ParkedRange(HashRange(9, 9), ((),))),
    "a parked range without a generation": _parked(ParkedRange(LOW, ())),
    "active rows without a parked range": _parked(active=True),
    "-1 is not a hash": _manifest(replace(_site(LOW), turn=-1), _site(HIGH)),
    f"{HASH_END} is not a hash": _manifest(replace(_site(LOW), turn=HASH_END), _site(HIGH)),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_contradiction_is_named_when_the_checkpoint_is_opened(what: str, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(tmp_path)
    checkpoint.commit(WRONG[what])
    with pytest.raises(CorruptCheckpointError, match=what) as caught:
        checkpoint.newest()
    assert "000000000003.json" in caught.value.what
    assert caught.value.hint
    checkpoint.close()


def _on_grid(*grid: int) -> Manifest:
    state = _manifest().subqueries[0]
    return _manifest(subqueries=(replace(state, directory=replace(state.directory, grid=grid)),))


@pytest.mark.parametrize("grid", [(1, 1), (1, 10_000), (999, 999)])
def test_any_grid_that_a_query_can_have_is_read_again(grid: tuple[int, int], tmp_path: Path) -> None:
    """A join over last rows has one row of cells, with one for each of up to 10,000 sites."""
    manifests.commit(tmp_path, _on_grid(*grid))
    assert manifests.read(tmp_path, 3).subqueries[0].directory.grid == grid


@pytest.mark.parametrize("grid", [(0, 3), (3, -1), (-2, -2), (1, 10**6 + 1), (10**5, 10**5)])
def test_a_grid_without_cells_or_with_too_many_is_refused(grid: tuple[int, int], tmp_path: Path) -> None:
    manifests.commit(tmp_path, _on_grid(*grid))
    with pytest.raises(CorruptCheckpointError, match="a grid without cells, or with too many"):
        manifests.read(tmp_path, 3)


def _without(*path: str | int) -> Callable[[Any], None]:
    def change(body: Any) -> None:
        for key in path[:-1]:
            body = body[key]
        del body[path[-1]]

    return change


@pytest.mark.parametrize(
    "change",
    [
        _without("asked_sites"),
        _without("sources", 0, "floor"),
        _without("subqueries", 0, "sites", 0, "released"),
        lambda body: body.update(unknown=1),
        lambda body: body["sources"][0].update(progress=json.loads("[" * 900 + "]" * 900)),
        lambda body: body.update(epoch=10**40),
        lambda body: body["subqueries"][0]["directory"].update(groups=[64] * 2_000_000),
    ],
)
def test_a_field_that_is_missing_unknown_or_enormous_is_refused(change: Callable[[Any], None], tmp_path: Path) -> None:
    body = json.loads(encode(_manifest()))["body"]
    change(body)
    write_body(tmp_path, 3, json.dumps(body, separators=(",", ":")).encode())
    with pytest.raises(CorruptCheckpointError, match=r"000000000003\.json"):
        manifests.read(tmp_path, 3)


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    body = encode(_manifest()).partition(b'"body":')[2][:-1]
    deep = b"[" * 100_000 + b"]" * 100_000
    for changed in (body.replace(b'{"batches":3}', deep), body[:-1] + b',"unknown":' + deep + b"}"):
        write_body(tmp_path, 3, changed)
        with pytest.raises(CorruptCheckpointError, match=r"000000000003\.json"):
            manifests.read(tmp_path, 3)


def test_a_manifest_of_many_gigabytes_is_not_read(tmp_path: Path) -> None:
    manifests.commit(tmp_path, _manifest())
    with (tmp_path / manifests.file_name(3)).open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(CorruptCheckpointError, match="1,099,511,627,776 bytes"):
        manifests.read(tmp_path, 3)
