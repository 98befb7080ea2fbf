"""Run files: never replaced, checked when opened, and still readable by those who hold them once they are deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from penstock.errors import CorruptCheckpointError
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange
from penstock.state.runs import HASH, TIME, RunFile, Slice
from penstock.storage import open_runs
from penstock.storage.faults import FaultPoint, InjectedCrash, arm, disarm
from penstock.storage.memory import RESIDENT
from penstock.storage.open_runs import HASHES_AT_ONCE, OpenRuns, is_sorted
from penstock.storage.run_files import write_run


def _rows(count: int = 50) -> pa.Table:
    hashes = np.sort(np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64))
    return pa.table({HASH: hashes, TIME: np.arange(count, dtype=np.int64) - 10, "v": [f"v{n}" for n in range(count)]})


def test_a_run_is_described_as_it_is(tmp_path: Path) -> None:
    run = write_run(tmp_path, "run", _rows())
    assert (run.name, run.rows, run.size) == ("run", 50, (tmp_path / "run").stat().st_size)
    assert (run.min_time, run.median_time, run.max_time) == (-10, 15, 39)
    assert OpenRuns().read(tmp_path, Slice(run, EVERYTHING)).equals(_rows())


def test_slices_cut_a_run_without_loss(tmp_path: Path) -> None:
    run, cache = write_run(tmp_path, "run", _rows()), OpenRuns()
    for border in (1, 2**63, int(_rows().column(HASH)[7].as_py())):
        parts = [HashRange(0, border), HashRange(border, HASH_END)]
        halves = [cache.read(tmp_path, Slice(run, part)) for part in parts]
        assert pa.concat_tables(halves).equals(_rows())


def test_a_name_is_never_used_twice(tmp_path: Path) -> None:
    write_run(tmp_path, "run", _rows())
    before = (tmp_path / "run").read_bytes()
    with pytest.raises(FileExistsError):
        write_run(tmp_path, "run", _rows(3))
    assert (tmp_path / "run").read_bytes() == before


def test_any_flipped_byte_is_seen(tmp_path: Path) -> None:
    piece = Slice(write_run(tmp_path, "run", _rows(3)), EVERYTHING)
    data = (tmp_path / "run").read_bytes()
    for place in range(len(data)):
        broken = bytearray(data)
        broken[place] ^= 1 << place % 8
        (tmp_path / "run").write_bytes(broken)
        with pytest.raises(CorruptCheckpointError, match="the state file run"):
            OpenRuns().read(tmp_path, piece)


@pytest.mark.parametrize("length", [0, 1, 100, -1])
def test_a_cut_run_is_seen(length: int, tmp_path: Path) -> None:
    piece = Slice(write_run(tmp_path, "run", _rows()), EVERYTHING)
    (tmp_path / "run").write_bytes((tmp_path / "run").read_bytes()[:length])
    with pytest.raises(CorruptCheckpointError, match="the state file run"):
        OpenRuns().read(tmp_path, piece)


def test_a_missing_run_is_named(tmp_path: Path) -> None:
    piece = Slice(write_run(tmp_path, "run", _rows()), EVERYTHING)
    (tmp_path / "run").unlink()
    with pytest.raises(CorruptCheckpointError, match="the state file run"):
        OpenRuns().read(tmp_path, piece)


def test_a_torn_run_is_not_whole_and_its_name_stays_taken(tmp_path: Path) -> None:
    whole = write_run(tmp_path, "whole", _rows())
    arm(FaultPoint.RUN_TORN)
    try:
        with pytest.raises(InjectedCrash):
            write_run(tmp_path, "run", _rows())
    finally:
        disarm()
    assert 0 < (tmp_path / "run").stat().st_size < whole.size
    with pytest.raises(CorruptCheckpointError):
        OpenRuns().read(tmp_path, Slice(replace(whole, name="run"), EVERYTHING))
    with pytest.raises(FileExistsError):
        write_run(tmp_path, "run", _rows())


def test_rows_in_hand_outlive_their_file(tmp_path: Path) -> None:
    """What a step has read stays what it was when collection deletes the file and the cache lets go of it."""
    cache, other = OpenRuns(), write_run(tmp_path, "other", _rows(5))
    held = cache.read(tmp_path, Slice(write_run(tmp_path, "run", _rows()), EVERYTHING))
    cache.keep_only(tmp_path, [other.name])
    (tmp_path / "run").unlink()
    write_run(tmp_path, "new", _rows(40))
    assert held.equals(_rows())


def test_closing_runs_of_one_folder_leaves_those_of_another(tmp_path: Path) -> None:
    cache, folders = OpenRuns(), [tmp_path / "a", tmp_path / "b"]
    pieces = []
    for folder in folders:
        folder.mkdir()
        pieces.append(Slice(write_run(folder, "run", _rows()), EVERYTHING))
        cache.read(folder, pieces[-1])
    cache.keep_only(folders[0], [])
    for folder in folders:
        (folder / "run").unlink()
    assert cache.read(folders[1], pieces[1]).equals(_rows())
    with pytest.raises(CorruptCheckpointError):
        cache.read(folders[0], pieces[0])


def _forged(path: Path, run: RunFile, data: bytes) -> Slice:
    """Other content under the name of a run, and what a manifest would say of it."""
    path.write_bytes(data)
    return Slice(replace(run, size=len(data), checksum=xxhash.xxh3_64_hexdigest(data)), EVERYTHING)


def _written_as(rows: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_file(out, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(out.getvalue())


def _changed(name: str, values: object) -> pa.Table:
    return _rows().set_column(_rows().column_names.index(name), name, values)


NO_RUNS: dict[str, pa.Table] = {
    "rows, but the manifest says 50": _rows(49),
    "does not begin with the columns": _rows().select([TIME, HASH, "v"]),
    "begin with the columns #hash and #time": _changed(HASH, pa.array(range(50), pa.int64())),
    "without nulls": _changed(TIME, pa.array([None, *range(49)], pa.int64())),
    "in one chunk": pa.concat_tables([_rows().slice(0, 20), _rows().slice(20)]),
    "not in order of their hashes": _changed(HASH, _rows().column(HASH).take(pa.array([1, 0, *range(2, 50)]))),
    "its times are from -11 to 38": _changed(TIME, pa.array(np.arange(50) - 11)),
    "to 99, but the manifest says": _changed(TIME, pa.array([*range(-10, 39), 99], pa.int64())),
    "its times are from -99 to 39": _changed(TIME, pa.array([-99, *range(-9, 40)], pa.int64())),
}


@pytest.mark.parametrize("why", NO_RUNS)
def test_a_file_that_fits_its_checksum_and_is_no_run_is_named(why: str, tmp_path: Path) -> None:
    run = write_run(tmp_path, "run", _rows())
    with pytest.raises(CorruptCheckpointError, match=why) as caught:
        OpenRuns().read(tmp_path, _forged(tmp_path / "run", run, _written_as(NO_RUNS[why])))
    assert "the state file run" in caught.value.what


def test_what_this_process_has_written_is_looked_at_only_if_it_is_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []
    monkeypatch.setattr(open_runs, "wrong_rows", lambda run, rows: looked.append(run.checksum))
    cache, run = OpenRuns(), write_run(tmp_path, "run", _rows())
    cache.wrote(tmp_path, run)
    cache.read(tmp_path, Slice(run, EVERYTHING))
    assert not looked
    cache.wrote(tmp_path, run)
    other = _forged(tmp_path / "run", run, _written_as(_changed("v", pa.array(["another"] * 50))))
    cache.read(tmp_path, other)
    assert looked == [other.run.checksum]


def test_what_was_written_is_not_remembered_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_runs, "_MOST_WRITTEN", 2)
    looked = []
    monkeypatch.setattr(open_runs, "wrong_rows", lambda run, rows: looked.append(run.name))
    cache, runs = OpenRuns(), [write_run(tmp_path, name, _rows()) for name in ("a", "b", "c")]
    for run in runs:
        cache.wrote(tmp_path, run)
    for run in runs:
        cache.read(tmp_path, Slice(run, EVERYTHING))
    assert looked == ["a"]


@pytest.mark.parametrize("row", [0, 25, 50])
def test_texts_beyond_the_end_of_the_file_do_not_end_the_process(row: int, tmp_path: Path) -> None:
    run = write_run(tmp_path, "run", _rows())
    data = bytearray((tmp_path / "run").read_bytes())
    content = pa.py_buffer(data)
    offsets = pa.ipc.open_file(content).read_all().column("v").chunk(0).buffers()[1]
    at = offsets.address - content.address + 4 * row
    changed = bytes(data[:at]) + (2**31 - 1).to_bytes(4, "little") + bytes(data[at + 4 :])
    with pytest.raises(CorruptCheckpointError, match="the state file run"):
        OpenRuns().read(tmp_path, _forged(tmp_path / "run", run, changed))


@pytest.mark.parametrize("length", [0, 100, None])
def test_a_run_that_is_damaged_while_it_is_open_is_seen(length: int | None, tmp_path: Path) -> None:
    piece, cache = Slice(write_run(tmp_path, "run", _rows()), EVERYTHING), OpenRuns()
    cache.read(tmp_path, piece)
    with (tmp_path / "run").open("r+b") as file:
        if length is None:
            file.seek(piece.run.size // 2)
            file.write(bytes(8))
        else:
            file.truncate(length)
    with pytest.raises(CorruptCheckpointError, match="the state file run"):
        cache.read(tmp_path, piece)


@pytest.mark.parametrize(
    "place", [1, HASHES_AT_ONCE - 1, HASHES_AT_ONCE, HASHES_AT_ONCE + 1, 2 * HASHES_AT_ONCE, 2 * HASHES_AT_ONCE + 6]
)
def test_a_hash_out_of_order_is_seen_wherever_it_is(place: int) -> None:
    hashes = np.arange(2 * HASHES_AT_ONCE + 7, dtype=np.uint64)
    assert is_sorted(hashes)
    hashes[place] = hashes[place - 1]
    assert is_sorted(hashes), "equal hashes are in order"
    hashes[place - 1] += 1
    assert not is_sorted(hashes)


def _large(rows: int = 200_000) -> pa.Table:
    """Rows of several blocks."""
    return _rows(rows)


def _halves() -> tuple[HashRange, HashRange]:
    return HashRange(0, HASH_END // 4), HashRange(3 * (HASH_END // 4), HASH_END)


def test_only_the_blocks_that_are_read_are_verified(tmp_path: Path) -> None:
    run = write_run(tmp_path, "run", _large())
    low, high = _halves()
    table = pa.ipc.open_file(pa.memory_map(str(tmp_path / "run"))).read_all()
    values = table.column("v").chunk(0).buffers()[2]
    with (tmp_path / "run").open("r+b") as file:  # damage a text of the rows in the upper half
        at = (tmp_path / "run").read_bytes().index(bytes(values)[values.size * 9 // 10 :])
        file.seek(at)
        file.write(b"?" * 8)
    cache = OpenRuns()
    assert cache.read(tmp_path, Slice(run, low)).equals(_large()[low.rows(_large().column(HASH).to_numpy())])
    assert len(cache.open(tmp_path, run).hashes(high)) > 10_000
    with pytest.raises(CorruptCheckpointError, match="do not match their checksum"):
        cache.read(tmp_path, Slice(run, high))


def test_the_bytes_of_a_slice_are_known_without_reading_it(tmp_path: Path) -> None:
    run, cache = write_run(tmp_path, "run", _large()), OpenRuns()
    for part in (*_halves(), EVERYTHING, HashRange(5, 6)):
        rows = _large()[part.rows(_large().column(HASH).to_numpy())]
        assert cache.open(tmp_path, run).size(part) == rows.nbytes


def test_pages_that_were_read_are_given_back(tmp_path: Path) -> None:
    """What a process has read of its runs does not stay in its memory, and can be read again."""
    rows = _rows(1_000_000)
    run, cache = write_run(tmp_path, "run", rows), OpenRuns()
    read = cache.read(tmp_path, Slice(run, EVERYTHING))
    assert read.equals(rows)
    assert _resident_of(tmp_path / "run") > run.size // 2
    RESIDENT.give_back()
    assert _resident_of(tmp_path / "run") < run.size // 10
    assert read.equals(rows)  # rows that are used after their pages were given back
    RESIDENT.give_back()
    assert _resident_of(tmp_path / "run") < run.size // 10


def test_pages_are_given_back_beyond_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, most = _rows(1_000_000), 0
    run, cache = write_run(tmp_path, "run", rows), OpenRuns()
    monkeypatch.setattr(RESIDENT, "limit", run.size // 8)
    parts = [HashRange(n * (HASH_END // 32), (n + 1) * (HASH_END // 32)) for n in range(32)]
    for part in parts:
        cache.read(tmp_path, Slice(run, part)).column("v").to_pylist()
        most = max(most, _resident_of(tmp_path / "run"))
    assert 0 < most < run.size // 2


def _resident_of(path: Path) -> int:
    """The bytes of a mapped file that are in the memory of this process."""
    with open("/proc/self/smaps") as maps:
        lines = iter(maps)
        for line in lines:
            if line.rstrip().endswith(str(path)):
                return next(1024 * int(at.split()[1]) for at in lines if at.startswith("Rss:"))
    return 0
