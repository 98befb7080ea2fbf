"""The run cache of a host: only what is needed is fetched, what is not right is not used, what is not there is fetched
again."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.task.site.storing import cache_root
from penstock.errors import CorruptCheckpointError, PenstockError
from penstock.state.hash_ranges import EVERYTHING, HASH_END, HashRange
from penstock.state.runs import HASH, TIME, RunFile, Slice
from penstock.storage import run_files
from penstock.storage.cache import cached_run
from penstock.storage.cache import host as host_cache
from penstock.storage.cache.host import Fetching, HostCache
from penstock.storage.durable import staged_name
from penstock.storage.open_runs import OpenRuns
from penstock.storage.run_files import write_run

ROWS = 16_000
MOST = 1 << 30


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "BLOCK", 4096)


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


def every(count: int, value: Callable[[int], object]) -> list[object]:
    """With nulls among them."""
    return [None if n % 7 == 3 else value(n) for n in range(count)]


def flat_columns(count: int) -> dict[str, pa.Array]:
    return {
        "text": pa.array(every(count, lambda n: "x" * (n % 50)), pa.string()),
        "bytes": pa.array(every(count, lambda n: b"y" * (n % 9)), pa.large_binary()),
        "number": pa.array(range(count), pa.int64()),
        "small": pa.array(every(count, lambda n: n % 100), pa.int8()),
        "flag": pa.array(every(count, lambda n: n % 3 == 0), pa.bool_()),
        "money": pa.array(every(count, lambda n: Decimal(n)), pa.decimal128(20, 2)),
        "moment": pa.array(every(count, lambda n: n), pa.timestamp("us")),
        "nothing": pa.nulls(count),
    }


def nested_columns(count: int) -> dict[str, pa.Array]:
    return {"list": pa.array([[n] * (n % 3) for n in range(count)]), **flat_columns(count)}


def table(columns: Callable[[int], dict[str, pa.Array]] = flat_columns, count: int = ROWS) -> pa.Table:
    hashes = np.sort(np.random.default_rng(1).integers(0, 2**64, count, dtype=np.uint64))
    return pa.table({HASH: hashes, TIME: np.arange(count, dtype=np.int64), **columns(count)})


def made(origin: Path, rows: pa.Table | None = None, epoch: int = 1) -> RunFile:
    name = staged_name(epoch, "q0-s0", os.urandom(8).hex(), "arrow")
    return write_run(origin, name, table() if rows is None else rows)


def cache_of(origin: Path, most: int = MOST) -> HostCache:
    return HostCache(origin.parent / "cache", origin, most)


def fetched(cache: HostCache, piece: Slice) -> int:
    return cache.fetch(piece, lambda took: None)


def part(number: int, of: int) -> HashRange:
    return HashRange(HASH_END * number // of, HASH_END * (number + 1) // of)


class Gate:
    """Brings nothing until it is open."""

    def __init__(self) -> None:
        self.open, self.entered = threading.Event(), threading.Event()
        self.brought: list[Slice] = []

    def bring(self, piece: Slice, pause: object) -> int:
        self.entered.set()
        self.open.wait()
        self.brought.append(piece)
        return 7


def files(origin: Path) -> list[Path]:
    return sorted(path for path in (origin.parent / "cache").rglob("*") if path.is_file())


@pytest.mark.parametrize("columns", [flat_columns, nested_columns])
def test_any_slice_is_what_it_is_in_the_checkpoint(
    columns: Callable[[int], dict[str, pa.Array]], origin: Path, random: Random
) -> None:
    run = made(origin, table(columns))
    for _ in range(20):
        low, high = sorted(random.randrange(HASH_END) for _ in range(2))
        piece = Slice(run, HashRange(low, high))
        cache = HostCache(origin.parent / str(random.random()), origin, MOST)
        assert not cache.is_here(piece)
        assert cache.read(piece) is None
        fetched(cache, piece)
        assert cache.is_here(piece)
        assert cache.read(piece).equals(OpenRuns().read(origin, piece))


def test_only_the_blocks_of_a_slice_are_fetched(origin: Path) -> None:
    run, cache = made(origin), cache_of(origin)
    sizes = [fetched(cache, Slice(run, part(number, 16))) for number in range(4)]
    assert all(0 < size < run.size // 3 for size in sizes)
    assert not cache.is_here(Slice(run, EVERYTHING))
    assert cache.is_here(Slice(run, part(0, 4))), "four neighbours together are a quarter"
    assert fetched(cache, Slice(run, part(0, 4))) == 0
    assert sum(sizes) + fetched(cache, Slice(run, EVERYTHING)) == run.size, "no block is fetched twice"


def test_a_run_without_checksums_of_its_blocks_is_fetched_whole(origin: Path) -> None:
    run, cache = replace(made(origin), blocks=""), cache_of(origin)
    assert fetched(cache, Slice(run, part(0, 16))) == run.size
    assert cache.read(Slice(run, EVERYTHING)).equals(table())


def test_what_this_host_has_written_is_not_fetched(origin: Path) -> None:
    cache = cache_of(origin)
    run = write_run(origin, staged_name(1, "q0-s0", "a", "arrow"), table(), copy=cache.put)
    (origin / run.name).unlink()
    assert cache.is_here(Slice(run, EVERYTHING))
    assert cache.read(Slice(run, EVERYTHING)).equals(table())


def test_processes_of_a_host_share_what_one_of_them_has_fetched(origin: Path) -> None:
    run, first, second = made(origin), cache_of(origin), cache_of(origin)
    piece = Slice(run, part(3, 8))
    assert not second.is_here(piece)
    assert fetched(first, piece) > 0
    assert fetched(second, piece) == 0
    assert second.read(piece).equals(OpenRuns().read(origin, piece))


@pytest.mark.parametrize("whole", [True, False])
def test_a_copy_that_is_not_right_is_fetched_again(whole: bool, origin: Path) -> None:
    """Any file of the cache with another byte, shorter, empty or gone."""
    piece = Slice(made(origin), part(1, 4))
    wanted, spoilt = OpenRuns().read(origin, piece), 0
    for spoil in (_other_byte, _shorter, _empty, Path.unlink):
        for number in range(1 if whole else 2):
            for path in files(origin):
                path.unlink()
            cache = cache_of(origin)
            if whole:
                cache.put(piece.run.name, memoryview((origin / piece.run.name).read_bytes()))
            fetched(cache, piece)
            spoil(files(origin)[number])
            again = cache_of(origin)
            spoilt += not again.is_here(piece)
            fetched(again, piece)
            assert again.read(piece).equals(wanted)
    assert spoilt == (4 if whole else 8)


def _other_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[0] ^= 1
    path.write_bytes(content)


def _shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def test_a_spoilt_checkpoint_is_named(origin: Path) -> None:
    run = made(origin)
    content = bytearray((origin / run.name).read_bytes())
    content[len(content) // 2] ^= 1
    (origin / run.name).write_bytes(content)
    with pytest.raises(CorruptCheckpointError, match="the state file"):
        fetched(cache_of(origin), Slice(run, EVERYTHING))
    (origin / run.name).unlink()
    with pytest.raises(CorruptCheckpointError, match="the state file"):
        fetched(cache_of(origin), Slice(run, EVERYTHING))


def test_a_full_disk_is_no_reason_to_fail(origin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, content: memoryview) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(cached_run, "write_all", full)
    monkeypatch.setattr(host_cache, "write_all", full)
    run, cache = made(origin), cache_of(origin)
    cache.put("another", memoryview(b"content"))
    assert files(origin) == []
    fetched(cache, Slice(run, part(0, 2)))
    assert cache.read(Slice(run, part(0, 2))).equals(OpenRuns().read(origin, Slice(run, part(0, 2))))


def test_what_no_manifest_names_is_removed(origin: Path) -> None:
    runs, cache = [made(origin, epoch=epoch) for epoch in (1, 2, 3)], cache_of(origin)
    for run in runs:
        fetched(cache, Slice(run, EVERYTHING))
    (files(origin)[0].parent / f"{runs[0].name}.left.new").touch()
    cache.keep_only({runs[1].name}, epoch=3)
    left = {path.name.partition(".arrow")[0] for path in files(origin)}
    assert left == {run.name.removesuffix(".arrow") for run in runs[1:]}, "one of this epoch may be in the making"


def test_a_copy_that_a_killed_process_was_writing_is_gone_at_the_next_start(
    origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache_of(origin).put("e000000000004-whole.arrow", memoryview(b"content"))
    left = files(origin)[0].with_name("e000000000004-q0-s0-x.arrow.0123.new")
    left.write_bytes(b"half of it")

    def another_comes(descriptor: int, content: memoryview) -> None:
        cache_of(origin)
        os.write(descriptor, content)

    monkeypatch.setattr(host_cache, "write_all", another_comes)
    cache_of(origin).put("e000000000004-mine.arrow", memoryview(b"content"))  # which is not left, but in the making
    assert [path.name for path in files(origin)] == ["e000000000004-mine.arrow", "e000000000004-whole.arrow"]


def test_copies_of_an_epoch_that_is_never_committed_do_not_fill_the_disk(origin: Path) -> None:
    content = memoryview(bytes(40_000))
    for attempt in range(10):
        cache_of(origin, most=100_000).put(staged_name(4, "q0-s0", str(attempt), "arrow"), content)
    assert [path.name[-7:] for path in files(origin)] == ["7.arrow", "8.arrow", "9.arrow"]


def test_what_was_used_least_recently_is_evicted(origin: Path) -> None:
    runs = [made(origin, epoch=epoch) for epoch in range(1, 5)]
    cache = cache_of(origin, most=int(2.5 * runs[0].size))
    for run in runs[:3]:
        fetched(cache, Slice(run, EVERYTHING))
    for age, run in enumerate([runs[2], runs[0], runs[1]]):
        for path in files(origin):
            if path.name.startswith(run.name):
                os.utime(path, (age, age))
    cache.needs("q0-s0", 1, [Slice(runs[0], EVERYTHING)])
    fetched(cache, Slice(runs[3], EVERYTHING))
    here = [run.name for run in runs if any(path.name.startswith(run.name) for path in files(origin))]
    assert here == [runs[0].name, runs[1].name, runs[3].name]


def test_what_is_fetched_is_not_evicted_by_its_own_fetch(origin: Path) -> None:
    piece, cache = Slice(made(origin), EVERYTHING), cache_of(origin, most=1)
    assert not cache.is_here(piece)
    assert fetched(cache, Slice(piece.run, part(0, 2))) + fetched(cache, piece) == piece.run.size
    assert cache.read(piece).equals(table())


def test_what_a_site_needs_is_not_evicted(origin: Path) -> None:
    runs, cache = [made(origin) for _ in range(3)], cache_of(origin, most=1)
    pieces = [Slice(run, EVERYTHING) for run in runs]
    cache.needs("q0-s0", 5, pieces)
    for piece in pieces:
        fetched(cache, piece)
    assert all(map(cache.is_here, pieces))
    cache.needs("q0-s0", 6, pieces[:1])
    fetched(cache, Slice(made(origin), EVERYTHING))
    assert [cache_of(origin).is_here(piece) for piece in pieces] == [True, False, False]


def test_the_cache_of_an_executor_lies_where_spark_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/one,/two")
    assert cache_root("executor") == Path("/one/penstock-runs")
    monkeypatch.delenv("SPARK_LOCAL_DIRS")
    assert cache_root("executor") is None
    assert cache_root("") is None
    assert cache_root("/three") == Path("/three")


def test_a_fetch_in_the_background(origin: Path) -> None:
    run, cache = made(origin), cache_of(origin)
    pieces = [Slice(run, part(number, 4)) for number in range(4)]
    fetching = Fetching(cache.fetch)
    fetching.begin(pieces)
    fetching.wait(pieces, None)
    assert all(map(cache.is_here, pieces))
    assert fetching.brought(pieces) > 0
    assert fetching.brought(pieces) == 0, "it has been told"


def test_nobody_waits_longer_than_he_wants(origin: Path) -> None:
    piece, gate = Slice(made(origin), EVERYTHING), Gate()
    fetching = Fetching(gate.bring)
    fetching.begin([piece])
    fetching.wait([piece], 0.0)
    assert fetching.brought([piece]) == 0
    gate.open.set()
    fetching.wait([piece], None)
    assert fetching.brought([piece]) == 7


def test_an_error_reaches_whoever_waits_and_nobody_else(origin: Path) -> None:
    bad, good = Slice(made(origin), EVERYTHING), Slice(made(origin), EVERYTHING)

    def bring(piece: Slice, pause: object) -> int:
        if piece == bad:
            raise ZeroDivisionError("some bug")
        return 1

    fetching = Fetching(bring)
    fetching.begin([bad, good])
    fetching.wait([good], None)
    with pytest.raises(PenstockError, match="could not be fetched"):
        fetching.wait([bad], None)
    fetching.wait([bad], None)


def test_what_is_of_no_use_any_more_is_not_fetched(origin: Path) -> None:
    first, second, gate = Slice(made(origin), EVERYTHING), Slice(made(origin), EVERYTHING), Gate()
    fetching = Fetching(gate.bring)
    fetching.begin([first, second])
    gate.entered.wait()
    fetching.keep_only({first.run.name})
    gate.open.set()
    fetching.wait([first, second], None)
    assert gate.brought == [first]
