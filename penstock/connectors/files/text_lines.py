"""Lines of a byte range of a text file. A line belongs to the range in which it starts, and is one row at most.

Lines end in a newline, with or without carriage returns before it; the last one may lack it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.bad_rows import bad_table
from penstock.connectors.files.compressed import OpenStreams, codec_of, open_text, text_size
from penstock.connectors.files.format import Part
from penstock.connectors.files.layout import ByteLayout
from penstock.connectors.files.listing import FileId
from penstock.connectors.files.text_values import uncastable
from penstock.errors import SourceError

BOM = b"\xef\xbb\xbf"
_NEWLINE = 10
_STEP = 1 << 20
_SAMPLE = 1 << 16
_LONGEST = 2**31 - 1
_streams = OpenStreams()


@dataclass(frozen=True)
class Block:
    """The whole lines that start in a range; `start` is the offset of the first of them."""

    data: bytes
    start: int


@dataclass(frozen=True)
class Lines:
    """Some lines of a block, without their ends; `ordinals` are their places in the block from 0, ascending."""

    text: pa.Array
    ordinals: npt.NDArray[np.int64]

    def where(self, mask: npt.NDArray[np.bool_]) -> Lines:
        return self if mask.all() else Lines(self.text.filter(pa.array(mask)), self.ordinals[mask])


@dataclass(frozen=True)
class BadLines:
    """Malformed lines of a block and why, in any order."""

    ordinals: npt.NDArray[np.int64]
    reasons: pa.Array
    texts: pa.Array

    @staticmethod
    def of(lines: Lines, reason: str) -> BadLines:
        return BadLines(lines.ordinals, pa.repeat(pa.scalar(reason), len(lines.ordinals)), lines.text)


def text_begin(path: str) -> int:
    """Where the text starts: behind the byte order mark, if there is one."""
    with open_text(path) as file:
        return len(BOM) if file.read(len(BOM)) == BOM else 0


def text_layout(file: FileId, begin: int) -> ByteLayout:
    """The layout of the lines from `begin` on; their length is that of the first ones."""
    with open_text(file.path) as source:
        source.seek(begin)
        sample = source.read(_SAMPLE)
    packed = codec_of(file.path) is not None
    size = text_size(file.path) if packed else file.size
    bytes_per_row = max(1.0, len(sample) / max(1, sample.count(b"\n")))
    return ByteLayout(begin, max(begin, size), bytes_per_row, sequential=packed)


def read_block(part: Part, begin: int) -> Block:
    """The lines that start in [part.start, part.end); `begin` is where the first line of the file starts."""
    if codec_of(part.file.path) is not None:
        return _next_block(part, begin)
    with open(part.file.path, "rb") as file:
        return _block_at(file, _line_start(file, part.start, begin), part)


def _next_block(part: Part, begin: int) -> Block:
    """The block of a compressed file, read on from where the one before it ended, if this process read that last."""
    kept = _streams.take(part.file, part.start)
    file, start = kept or (open_text(part.file.path), None)
    try:
        block = _block_at(file, _line_start(file, part.start, begin) if start is None else start, part)
    except BaseException:
        file.close()
        raise
    if file.peek(1):  # type: ignore[attr-defined]
        _streams.keep(part.file, part.end, file, block.start + len(block.data))
    else:
        file.close()
    return block


def _block_at(file: BinaryIO, start: int, part: Part) -> Block:
    file.seek(start)
    data = file.read(max(0, part.end - start))
    if data and not data.endswith(b"\n"):
        data += file.readline()
    if len(data) > _LONGEST:
        raise SourceError(f"a line of `{part.file.path}` is longer than 2 GiB", hint="is it a text file?")
    return Block(data, start)


def _line_start(file: BinaryIO, at: int, begin: int) -> int:
    """The first offset not before `at` where a line starts."""
    if at <= begin:
        return begin
    file.seek(at - 1)
    return at - 1 + len(file.readline())


def split_lines(data: bytes) -> tuple[Lines, BadLines]:
    """The lines of a block that are not blank, and those that are not UTF-8."""
    starts = np.concatenate([[0], np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1])
    offsets = starts if starts[-1] == len(data) else np.append(starts, len(data))
    whole = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data))
    text = pc.ascii_rtrim(whole, "\r\n")
    lines = Lines(text, np.arange(len(text), dtype=np.int64))
    return _only_utf8(lines.where(np.asarray(pc.greater(pc.binary_length(text), 0))))


def _only_utf8(lines: Lines) -> tuple[Lines, BadLines]:
    octets = lines.text.view(pa.binary())
    good = np.ones(len(octets), np.bool_)
    good[uncastable(octets, pa.string())] = False
    wrong = octets.filter(pa.array(~good)).to_pylist()
    shown = pa.array([line.decode("utf-8", "replace") for line in wrong], pa.string())
    return lines.where(good), BadLines.of(Lines(shown, lines.ordinals[~good]), "the line is not UTF-8")


def report(part: Part, block: Block, found: list[BadLines]) -> pa.Table | None:
    """All malformed lines of a block by their places in the file, or None. Only now are the lines before counted."""
    found = [bad for bad in found if len(bad.ordinals)]
    if not found:
        return None
    ordinals = np.concatenate([bad.ordinals for bad in found])
    order = np.argsort(ordinals, kind="stable")
    lines = ordinals[order] + 1 + _lines_before(part.file.path, block.start)
    why = pa.concat_arrays([bad.reasons for bad in found]).take(pa.array(order))
    return bad_table(
        part.file.path, pa.array(lines), why, pa.concat_arrays([bad.texts for bad in found]).take(pa.array(order))
    )


def _lines_before(path: str, offset: int) -> int:
    count = 0
    with open_text(path) as file:
        while offset > 0 and (data := file.read(min(_STEP, offset))):
            count, offset = count + data.count(b"\n"), offset - len(data)
    return count
