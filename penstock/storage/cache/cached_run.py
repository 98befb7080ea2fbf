"""A run in the cache of a host: the whole file, or the blocks that the slices of this host need."""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, numbers_in
from penstock.errors import CorruptCheckpointError
from penstock.state.hash_ranges import HashRange
from penstock.state.runs import HASH, RunFile
from penstock.storage.durable import open_plain, read_plain
from penstock.storage.run_content import is_sorted, wrong_form
from penstock.storage.run_files import Blocks, OpenRun, corrupt, open_run, write_all
from penstock.types import as_array

SOME, HAVE = ".some", ".have"  # the present blocks, each at its offset; and one byte per block: is it present
PORTION = 1 << 22  # bytes that are fetched between two calls of `Breathe`
Breathe = Callable[[float], None]  # called with the seconds that the last portion took; may pause
Span = tuple[int, int]  # addresses in memory: [first, end)


class WholeRun:
    """A run whose file is complete."""

    def __init__(self, opened: OpenRun) -> None:
        self._opened, self.table = opened, opened.table

    @property
    def is_intact(self) -> bool:
        """Return whether the copy is unchanged since it was compared with the manifest."""
        return self._opened.is_intact

    def wanting(self, part: HashRange) -> list[int]:
        """Return no blocks: the file is complete."""
        return []


class PartialRun:
    """A run of which some blocks are present, in a sparse file that this process maps into memory.

    Invariant: a block marked in `_have` is in the file, and matched its checksum when it was fetched, or when this
    process first read the marks. Marks are only ever added, by one process at a time, and after the bytes.
    """

    def __init__(self, path: Path, run: RunFile) -> None:
        self._run, self._blocks = run, Blocks.of(run)
        self._marks = path.with_name(path.name + HAVE)
        self._file = open_plain(path.with_name(path.name + SOME), os.O_RDWR | os.O_CREAT)
        os.ftruncate(self._file, run.size)
        self._map = mmap.mmap(self._file, run.size, mmap.MAP_SHARED, mmap.PROT_READ)
        self._content = pa.py_buffer(self._map)
        self._have = bytearray(len(self._blocks))
        self._table: pa.Table | None = None
        self._opening = threading.Lock()
        self._whole = False  # the run is usable only as a whole
        self._here: tuple[HashRange, ...] = ()  # never changed in place: two threads read it
        self._look_again()
        self._changed = os.fstat(self._file).st_mtime_ns  # the version of the file that this process last checked

    def __del__(self) -> None:
        with suppress(OSError, AttributeError):  # opening may have failed
            os.close(self._file)

    @property
    def is_intact(self) -> bool:
        """Return whether all present blocks still match. Other processes may add blocks, and the file may be damaged;
        it must not be read beyond its end."""
        about = os.fstat(self._file)
        if about.st_size == self._run.size and about.st_mtime_ns != self._changed:
            self._changed = about.st_mtime_ns
            return all(self._matches(block) for block, here in enumerate(self._have) if here)
        return about.st_size == self._run.size

    def _matches(self, block: int) -> bool:
        first, end = self._blocks.span(block)
        return self._blocks.matches(block, memoryview(self._content)[first:end])

    @property
    def table(self) -> pa.Table:
        """Return the table; only rows whose blocks are present may be read."""
        assert self._table is not None, "its slices are here"
        return self._table

    def wanting(self, part: HashRange) -> list[int]:
        """Return the blocks to fetch next for the rows of a range; empty if all are present."""
        if any(known.low <= part.low and part.high <= known.high for known in self._here):
            return []
        for stage in self._stages(part):
            if absent := [block for block in stage if not self._have[block]]:
                return absent
        self._here = (*self._here, part)
        return []

    def _stages(self, part: HashRange) -> Iterator[list[int]]:
        """Yield the needed blocks, stage by stage: a stage can be determined only when the blocks of the stages before
        it are present."""
        yield sorted({0, len(self._blocks) - 1})
        self._open()
        if self._whole:
            yield list(range(len(self._blocks)))
            self._open()
        table, hashes = self.table, self.table.column(HASH)
        yield self._covering(spans_at_once(table.select([HASH]), slice(0, table.num_rows)))
        if not is_sorted(hashes.to_numpy()):
            raise corrupt(Path(self._run.name), "its rows are not in order of their hashes")
        rows = part.rows(hashes.to_numpy())
        yield self._covering(spans_at_once(table, rows))
        if not offsets_fit(table, rows):
            raise corrupt(Path(self._run.name), "offsets in it are not valid")
        yield self._covering(spans_by_offsets(table, rows))

    def _covering(self, spans: Iterator[tuple[int, int]]) -> list[int]:
        """Return the blocks that contain these addresses."""
        base = self._content.address
        return self._blocks.covering((first - base, end - base) for first, end in spans)

    def _open(self) -> None:
        """Read the layout of the columns from the first and the last block. If that fails, the whole file is needed.
        Reader and fetching thread may call this at the same time."""
        with self._opening:
            if self._table is None:
                complete, table = all(self._have), self._opened()
                why = "it is not an Arrow file" if table is None else self._wrong(table)
                if complete and why is not None:
                    raise corrupt(self._marks.with_name(self._run.name), why)
                self._whole = table is None or why is not None or not is_flat(table)
                self._table = table if complete or not self._whole else None

    def _wrong(self, table: pa.Table) -> str | None:
        """Return why a table cannot be the rows of the run; None if it can."""
        if table.num_rows != self._run.rows:
            return f"it has {table.num_rows} rows, but the manifest says {self._run.rows}"
        return wrong_form(table)

    def _opened(self) -> pa.Table | None:
        """Return the table of the mapped file; None if it cannot be read as Arrow."""
        try:
            return pa.ipc.open_file(self._content).read_all()
        except (OSError, pa.ArrowInvalid):
            return None

    def bring(self, part: HashRange, origin: Path, breathe: Breathe) -> int:
        """Fetch the missing blocks for the rows of a range from `origin`; return the bytes fetched. `breathe` is called
        after each portion."""
        brought = 0
        with self._alone(), os.fdopen(open_plain(origin), "rb", buffering=0) as source:
            self._look_again()
            while absent := self.wanting(part):
                most = max(1, PORTION // self._blocks.length)
                for at in range(0, len(absent), most):
                    began = time.perf_counter()
                    brought += self._bring(absent[at : at + most], source.fileno(), origin)
                    breathe(time.perf_counter() - began)
        return brought

    def _bring(self, blocks: list[int], source: int, origin: Path) -> int:
        """Copy blocks from `source`, check them, and mark them as present; return the bytes copied."""
        brought = 0
        for block in blocks:
            first, end = self._blocks.span(block)
            content = memoryview(os.pread(source, end - first, first))
            if not self._blocks.matches(block, content):
                raise corrupt(origin, f"the bytes from {first} to {end} do not match their checksum")
            os.lseek(self._file, first, os.SEEK_SET)
            write_all(self._file, content)
            brought += len(content)
        for block in blocks:
            self._have[block] = True
        with os.fdopen(open_plain(self._marks, os.O_WRONLY | os.O_CREAT), "wb", buffering=0) as marks:
            marks.write(self._have)
        self._changed = os.fstat(self._file).st_mtime_ns
        return brought

    def _look_again(self) -> None:
        """Add the blocks that other processes of this host have fetched. Each is checked: after a power loss a mark may
        be there without its bytes."""
        with suppress(OSError):
            for block, marked in enumerate(read_plain(self._marks, len(self._blocks))):
                if marked and not self._have[block]:
                    self._have[block] = self._matches(block)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the lock of the file: other processes on this host that need the same run wait."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


CachedRun = WholeRun | PartialRun


def cached_run(path: Path, run: RunFile) -> CachedRun:
    """Return the run as the cache has it. A copy that is damaged is deleted."""
    if os.path.lexists(path):
        try:
            return WholeRun(open_run(path, run))
        except CorruptCheckpointError:
            path.unlink(missing_ok=True)
    return PartialRun(path, run)


def is_flat(table: pa.Table) -> bool:
    """Return whether the bytes of single rows can be located in the buffers of a table."""
    return all(column.num_chunks == 1 and _kind(column.type) for column in table.columns)


def _kind(kind: pa.DataType) -> str:
    """Return how values of a type are laid out; empty for nested and other types."""
    if pa.types.is_null(kind):
        return "nothing"
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return "fixed"
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return "offsets of 4"
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return "offsets of 8"
    return ""


def spans_at_once(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows that can be computed without reading a value: validity, fixed-width values,
    offsets."""
    if rows.start == rows.stop:
        return
    for column in table.columns:
        yield from _of_column(as_array(column), rows)


def _of_column(array: AnyArray, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of some rows of an array, without values of variable length."""
    buffers = array.buffers()
    if buffers[0] is not None:
        yield _bits(buffers[0], rows, 1)
    match _kind(array.type):
        case "fixed":
            yield _bits(buffers[1], rows, array.type.bit_width)
        case "offsets of 4":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 32)
        case "offsets of 8":
            yield _bits(buffers[1], slice(rows.start, rows.stop + 1), 64)


def _bits(buffer: pa.Buffer | None, rows: slice, width: int) -> Span:
    """Return the address range of some rows in a buffer of `width` bits per row."""
    assert buffer is not None
    first, end = rows.start * width // 8, -(-rows.stop * width // 8)
    return buffer.address + first, buffer.address + min(end, buffer.size)


def offsets_fit(table: pa.Table, rows: slice) -> bool:
    """Return whether the offsets of some rows, which must be present, ascend and stay within the values."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)[rows.start : rows.stop + 1]
            size = 0 if values is None else values.size
            if (
                len(places) <= rows.stop - rows.start
                or places[0] < 0
                or places[-1] > size
                or (np.diff(places) < 0).any()
            ):
                return False
    return True


def _places(offsets: pa.Buffer | None, kind: str) -> npt.NDArray[np.signedinteger]:
    """Return the offsets as an array."""
    return numbers_in(offsets, np.int32) if kind == "offsets of 4" else numbers_in(offsets, np.int64)


def spans_by_offsets(table: pa.Table, rows: slice) -> Iterator[Span]:
    """Yield the address ranges of values of variable length. Requires that the offsets are present."""
    for column in table.columns:
        kind = _kind(column.type)
        if kind.startswith("offsets") and rows.start < rows.stop:
            _, offsets, values = as_array(column).buffers()
            places = _places(offsets, kind)
            if values is not None:
                yield values.address + int(places[rows.start]), values.address + int(places[rows.stop])
