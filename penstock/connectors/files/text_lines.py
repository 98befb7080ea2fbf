"""Read the lines of a byte range of a text file. A line belongs to the range in which it starts, and is at most one
row.

Lines end in a newline, with or without carriage returns before it; the last one may lack it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, arrow_buffer
from penstock.connectors.bad_rows import bad_table
from penstock.connectors.files.compressed import OpenStreams, codec_of, open_text, text_size
from penstock.connectors.files.format import FilePart
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
    """The complete lines that start in a range; `start` is the offset of the first one."""

    data: bytes
    start: int


@dataclass(frozen=True)
class Lines:
    """Some lines of a block, without line ends. `ordinals` are their indexes in the block, ascending."""

    text: AnyArray
    ordinals: npt.NDArray[np.int64]

    def where(self, mask: npt.NDArray[np.bool_]) -> Lines:
        """Return the lines for which the mask is true."""
        return self if mask.all() else Lines(self.text.filter(pa.array(mask)), self.ordinals[mask])


@dataclass(frozen=True)
class BadLines:
    """Malformed lines of a block with their reasons, in any order."""

    ordinals: npt.NDArray[np.int64]
    reasons: AnyArray
    texts: AnyArray

    @staticmethod
    def of(lines: Lines, reason: str) -> BadLines:
        """Return the lines as malformed, all for the same reason."""
        return BadLines(lines.ordinals, pa.repeat(pa.scalar(reason), len(lines.ordinals)), lines.text)


def text_begin(path: str) -> int:
    """Return the offset of the text: after the byte order mark, if there is one."""
    with open_text(path) as file:
        return len(BOM) if file.read(len(BOM)) == BOM else 0


def text_layout(file: FileId, begin: int) -> ByteLayout:
    """Return the layout of the lines from `begin` on; bytes per row are estimated from the first lines."""
    with open_text(file.path) as source:
        source.seek(begin)
        sample = source.read(_SAMPLE)
    packed = codec_of(file.path) is not None
    size = text_size(file.path) if packed else file.size
    bytes_per_row = max(1.0, len(sample) / max(1, sample.count(b"\n")))
    return ByteLayout(begin, max(begin, size), bytes_per_row, sequential=packed)


def read_block(part: FilePart, begin: int) -> Block:
    """Return the lines that start in [part.start, part.end); `begin` is the offset of the first line of the file."""
    if codec_of(part.file.path) is not None:
        return _next_block(part, begin)
    with open(part.file.path, "rb") as file:
        return _block_at(file, _line_start(file, part.start, begin), part)


def _next_block(part: FilePart, begin: int) -> Block:
    """Return a block of a compressed file; if this process read the previous block, the stream continues from there."""
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


def _block_at(file: BinaryIO, start: int, part: FilePart) -> Block:
    """Return the lines from offset `start`, which must be the start of a line, to the end of the part."""
    file.seek(start)
    data = file.read(max(0, part.end - start))
    if data and not data.endswith(b"\n"):
        data += file.readline()
    if len(data) > _LONGEST:
        raise SourceError(f"a line of `{part.file.path}` is longer than 2 GiB", hint="is it a text file?")
    return Block(data, start)


def _line_start(file: BinaryIO, at: int, begin: int) -> int:
    """Return the first offset at or after `at` where a line starts."""
    if at <= begin:
        return begin
    file.seek(at - 1)
    return at - 1 + len(file.readline())


def split_lines(data: bytes) -> tuple[Lines, BadLines]:
    """Return the lines of a block that are not blank, and those that are not UTF-8."""
    starts = np.concatenate([[0], np.flatnonzero(np.frombuffer(data, np.uint8) == _NEWLINE) + 1])
    offsets = starts if starts[-1] == len(data) else np.append(starts, len(data))
    whole = pa.StringArray.from_buffers(len(offsets) - 1, arrow_buffer(offsets.astype(np.int32)), pa.py_buffer(data))
    text = pc.ascii_rtrim(whole, "\r\n")
    lines = Lines(text, np.arange(len(text), dtype=np.int64))
    return _only_utf8(lines.where(np.asarray(pc.greater(pc.binary_length(text), pa.scalar(0)))))


def _only_utf8(lines: Lines) -> tuple[Lines, BadLines]:
    octets = lines.text.view(pa.binary())
    good = np.ones(len(octets), np.bool_)
    good[uncastable(octets, pa.string())] = False
    wrong = octets.filter(pa.array(~good)).to_pylist()
    shown = pa.array([(line or b"").decode("utf-8", "replace") for line in wrong], pa.string())
    return lines.where(good), BadLines.of(Lines(shown, lines.ordinals[~good]), "the line is not UTF-8")


def report(part: FilePart, block: Block, found: list[BadLines]) -> pa.Table | None:
    """Return the malformed lines of a block with their line numbers, in order, or None.

    The preceding lines of the file are counted only here, because malformed lines are rare.
    """
    found = [bad for bad in found if len(bad.ordinals)]
    if not found:
        return None
    ordinals = np.concatenate([bad.ordinals for bad in found])
    order = np.argsort(ordinals, kind="stable")
    lines = ordinals[order] + 1 + _lines_before(part.file.path, block.start)
    why = pa.concat_arrays([bad.reasons for bad in found]).take(order)
    return bad_table(part.file.path, pa.array(lines), why, pa.concat_arrays([bad.texts for bad in found]).take(order))


def _lines_before(path: str, offset: int) -> int:
    """Return the number of lines before the offset."""
    count = 0
    with open_text(path) as file:
        while offset > 0 and (data := file.read(min(_STEP, offset))):
            count, offset = count + data.count(b"\n"), offset - len(data)
    return count
