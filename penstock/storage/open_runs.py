"""Runs that a process has open: mapped into memory, and read block by block.

A block of a mapped file may be read once it is known to be present and sound. Only the blocks that hold the wanted rows
are needed: those of the file's layout, of the hashes, and of the rows of a range in every column. So a run is neither
fetched nor verified as a whole, and state that is not read takes no memory.

The checksum protects the bytes; checks of the content protect against bytes that never were a run. A file may match the
checksum in a manifest if one cause damaged both. Arrow trusts the offsets in a file, so reading one with wrong offsets
can crash the process.

A map shows whatever is written to its file, and reading a map beyond the end of its file kills the process. So a run is
opened again, and verified again, if its file has changed.
"""

from __future__ import annotations

import mmap
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.state.hash_ranges import Hashes, HashRange, coalesced
from penstock.state.runs import HASH, TIME, RunFile, Slice
from penstock.storage.durable import open_plain, reason
from penstock.storage.memory import LOOK_UP, RESIDENT
from penstock.storage.run_files import Blocks, Span, corrupt, is_flat, offsets_fit, spans_at_once, spans_by_offsets

_MOST_WRITTEN = 10_000
HASHES_AT_ONCE = 1 << 15  # hashes that are compared at once: they and the result stay in the cache of the core
_FIRST_COLUMNS = pa.schema([(HASH, pa.uint64()), (TIME, pa.int64())])

Signature = tuple[int, ...]  # of a file: changes when the file is replaced, written to or truncated


class BlockedRun:
    """The rows of a run in a mapped file, of which only the blocks marked in `have` may be read.

    Invariant: the rows of the ranges in `_here` are in marked blocks, and are valid. A marked block stays marked. Two
    threads may use a run at the same time: `_here` is never changed in place. `trusted`: the content need not be
    validated, because this process wrote it.
    """

    def __init__(self, path: Path, run: RunFile, content: pa.Buffer, trusted: bool = False) -> None:
        self._path, self._run, self._content, self._trusted = path, run, content, trusted
        self.blocks = Blocks.of(run)
        self.have = bytearray(len(self.blocks))
        self._table: pa.Table | None = None
        self._hashes: Hashes | None = None
        self._opening = threading.Lock()
        self._whole = False  # the run is usable only as a whole
        self._here: tuple[HashRange, ...] = ()

    def matches(self, block: int) -> bool:
        """Return whether the mapped bytes of a block match its checksum."""
        first, end = self.blocks.span(block)
        return self.blocks.matches(block, memoryview(self._content)[first:end])

    # -- what is wanting -------------------------------------------------------------------------------------------

    def wanting_hashes(self) -> list[int]:
        """Return the blocks needed next to read the hashes; empty if they can be read."""
        return [] if self._hashes is not None else self._first_absent(self._stages_of_hashes())

    def wanting(self, part: HashRange) -> list[int]:
        """Return the blocks needed next to read the rows of a range; empty if they can be read."""
        if any(known.low <= part.low and part.high <= known.high for known in self._here):
            return []
        if absent := self._first_absent(self._stages(part)):
            return absent
        self._here = tuple(coalesced([*self._here, part]))
        return []

    def wanting_bounds(self, part: HashRange) -> list[int]:
        """Return the blocks needed next to tell the bytes of the rows of a range; empty if they are known."""
        return self.wanting_hashes() or self._first_absent(self._stages_of_bounds(part))

    def _first_absent(self, stages: Iterator[list[int]]) -> list[int]:
        for stage in stages:
            if absent := [block for block in stage if not self.have[block]]:
                return absent
        return []

    def _stages_of_hashes(self) -> Iterator[list[int]]:
        """Yield the needed blocks, stage by stage: a stage can be determined only when the blocks of the stages before
        it are present."""
        yield sorted({0, len(self.blocks) - 1})
        self._open()
        if self._whole:
            yield list(range(len(self.blocks)))
            self._open()
        yield self._covering(spans_at_once(self._rows.select([HASH]), slice(0, self._run.rows)))
        hashes = self._rows.column(HASH).to_numpy()
        if not self._trusted and not is_sorted(hashes):
            raise corrupt(self._path, "its rows are not in order of their hashes")
        self._hashes = hashes

    def _stages(self, part: HashRange) -> Iterator[list[int]]:
        yield from self._stages_of_hashes() if self._hashes is None else ()
        rows = part.rows(self.hashes)
        if not self._whole:
            yield self._covering(spans_at_once(self._rows, rows))
            if not offsets_fit(self._rows, rows):
                raise corrupt(self._path, "offsets in it are not valid")
            yield self._covering(spans_by_offsets(self._rows, rows))
        if not self._trusted and (why := wrong_rows(self._run, self._rows[rows])) is not None:
            raise corrupt(self._path, why)

    def _stages_of_bounds(self, part: HashRange) -> Iterator[list[int]]:
        rows = part.rows(self.hashes)
        if not self._whole and rows.start < rows.stop:
            for row in (rows.start, rows.stop - 1):
                yield self._covering(spans_at_once(self._rows, slice(row, row + 1)))

    def _covering(self, spans: Iterator[Span]) -> list[int]:
        """Return the blocks that contain these addresses."""
        base = self._content.address
        return self.blocks.covering((first - base, end - base) for first, end in spans)

    # -- reading ---------------------------------------------------------------------------------------------------

    @property
    def hashes(self) -> Hashes:
        """Return the hashes of all rows; nothing of them may be wanting."""
        assert self._hashes is not None, "no block of the hashes is wanting"
        return self._hashes

    def rows(self, part: HashRange) -> pa.Table:
        """Return the rows of a range without copying; nothing of them may be wanting."""
        return self._rows[part.rows(self.hashes)]

    def size(self, part: HashRange) -> int:
        """Return the bytes of the rows of a range; nothing of their bounds may be wanting."""
        return int(self._rows[part.rows(self.hashes)].nbytes)

    @property
    def _rows(self) -> pa.Table:
        assert self._table is not None, "the layout has been read"
        return self._table

    def _open(self) -> None:
        """Read the layout of the columns from the first and the last block. If that fails, the whole file is needed.
        Two threads may call this at the same time."""
        with self._opening:
            if self._table is None:
                complete, table = all(self.have), self._opened()
                why = "it is not an Arrow file" if table is None else self._wrong(table)
                if complete and why is not None:
                    raise corrupt(self._path, why)
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


def wrong_rows(run: RunFile, rows: pa.Table) -> str | None:
    """Return why a table cannot be some of the rows of a run; None if it can."""
    try:
        rows.validate(full=True)
    except pa.ArrowInvalid as error:
        return str(error)
    times = pc.min_max(rows.column(TIME))
    found = times["min"].as_py(), times["max"].as_py()
    if rows.num_rows and not run.min_time <= found[0] <= found[1] <= run.max_time:
        return f"its times are from {found[0]} to {found[1]}, but the manifest says {run.min_time} to {run.max_time}"
    return None


def wrong_form(rows: pa.Table) -> str | None:
    """Return what is wrong with the columns that every run begins with; None if they are right."""
    if [*rows.schema][:2] != [*_FIRST_COLUMNS]:
        return f"it does not begin with the columns {HASH} and {TIME}"
    first = [rows.column(place) for place in range(2)]
    if any(column.num_chunks != 1 or column.null_count for column in first):
        return "its hashes and times are not each in one chunk without nulls"
    try:
        for column in first:
            column.validate()
    except pa.ArrowInvalid as error:
        return str(error)
    return None


def is_sorted(hashes: Hashes) -> bool:
    """Return whether hashes are in ascending order."""
    lower, upper = hashes[:-1], hashes[1:]
    blocks = (slice(at, at + HASHES_AT_ONCE) for at in range(0, len(lower), HASHES_AT_ONCE))
    return all(bool(np.all(lower[block] <= upper[block])) for block in blocks)


class MappedRun:
    """A complete run file, mapped into memory. Each block is verified before it is first read. Raises
    CorruptCheckpointError if the file is not the run."""

    def __init__(self, path: Path, run: RunFile, trusted: bool = False) -> None:
        self.path = path
        try:
            self._map, self._signature = _mapped(path, run)
        except OSError as error:
            raise corrupt(path, reason(error)) from error
        RESIDENT.add(self._map)
        self._blocked = BlockedRun(path, run, pa.py_buffer(self._map), trusted)

    @property
    def is_intact(self) -> bool:
        """Return whether the file is unchanged since it was opened. A removed file counts as unchanged: a map outlives
        the name of its file."""
        return signature_of(self.path) in (self._signature, None)

    def is_here(self, part: HashRange) -> bool:
        """Verify the rows of a range and return True: the file is complete."""
        self._verify(lambda: self._blocked.wanting(part))
        return True

    def hashes(self, part: HashRange) -> Hashes:
        """Return the hashes of a range's rows."""
        self._verify(self._blocked.wanting_hashes)
        found = self._blocked.hashes[part.rows(self._blocked.hashes)]
        RESIDENT.read(found.nbytes)
        return found

    def rows(self, part: HashRange) -> pa.Table:
        """Return the rows of a range without copying."""
        self.is_here(part)
        found = self._blocked.rows(part)
        RESIDENT.read(found.nbytes)
        return found

    def size(self, part: HashRange) -> int:
        """Return the bytes of a range's rows."""
        self._verify(lambda: self._blocked.wanting_bounds(part))
        RESIDENT.read(LOOK_UP)
        return self._blocked.size(part)

    def _verify(self, wanting: Callable[[], list[int]]) -> None:
        """Compare the blocks that are wanting with their checksums, until none is."""
        while blocks := wanting():
            for block in blocks:
                first, end = self._blocked.blocks.span(block)
                RESIDENT.read(end - first)
                if not self._blocked.matches(block):
                    raise corrupt(self.path, f"the bytes from {first} to {end} do not match their checksum")
                self._blocked.have[block] = True


class OpenRuns:
    """The runs that this process has open, by folder and name. Names are never reused, so an entry is never stale.

    The content of a run that this process wrote is not validated if its checksums match.
    """

    def __init__(self) -> None:
        self._runs: dict[Path, dict[str, MappedRun]] = {}
        self._written: dict[Path, str] = {}  # the checksums of runs this process wrote and has not opened yet

    def wrote(self, folder: Path, run: RunFile) -> None:
        """Record that this process wrote a run."""
        self._written[folder / run.name] = run.checksum
        if len(self._written) > _MOST_WRITTEN:
            self._written.pop(next(iter(self._written)), None)

    def open(self, folder: Path, run: RunFile) -> MappedRun:
        """Return the open run; opens it if needed, or again if its file has changed."""
        opened = self._runs.setdefault(folder, {})
        known = opened.get(run.name)
        if known is None or not known.is_intact:
            own = self._written.pop(folder / run.name, None) == run.checksum
            known = opened[run.name] = MappedRun(folder / run.name, run, trusted=own)
        return known

    def read(self, folder: Path, piece: Slice) -> pa.Table:
        """Return the rows of a slice without copying. Raises CorruptCheckpointError if the file is not the run."""
        return self.open(folder, piece.run).rows(piece.range)

    def keep_only(self, folder: Path, names: Iterable[str]) -> None:
        """Close the runs of `folder` that are no longer part of its state."""
        opened = self._runs.get(folder, {})
        for name in set(opened).difference(names):  # a copy: other sites of this process open runs at the same time
            opened.pop(name, None)
        if not opened:
            self._runs.pop(folder, None)


def signature_of(path: Path) -> Signature | None:
    """Return the signature of a file now; None if it does not exist."""
    try:
        return _signature(os.lstat(path))
    except OSError:
        return None


def _signature(about: os.stat_result) -> Signature:
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns


def _mapped(path: Path, run: RunFile) -> tuple[mmap.mmap, Signature]:
    """Map the file and return its map and signature; its size must match the manifest."""
    descriptor = open_plain(path)
    try:
        about = os.fstat(descriptor)
        if about.st_size != run.size:
            raise corrupt(path, f"it has {about.st_size} bytes, but the manifest says {run.size}")
        return mmap.mmap(descriptor, run.size, mmap.MAP_SHARED, mmap.PROT_READ), _signature(about)
    finally:
        os.close(descriptor)
