"""Runs that are read block by block: a block of a mapped file may be read once it is known to be present and sound.

Only the blocks that hold the wanted rows are needed: those of the file's layout, of the hashes, and of the rows of a
range in every column. So a run is neither fetched nor verified as a whole, and state that is not read takes no memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from penstock.state.hash_ranges import Hashes, HashRange, coalesced
from penstock.state.runs import HASH, RunFile
from penstock.storage.run_content import is_sorted, wrong_form, wrong_rows
from penstock.storage.run_files import Blocks, Span, corrupt, is_flat, offsets_fit, spans_at_once, spans_by_offsets


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
