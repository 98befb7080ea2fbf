"""Text files that are compressed by gzip or Zstandard, read as the text they hold.

A compressed file has no place to begin but its first byte. It is read as a stream, in little memory, and an offset is
one of the text; going back means beginning anew.
"""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO, cast

import pyarrow as pa

from penstock.connectors.files.listing import FileId, open_arrow
from penstock.errors import SourceError

CODECS = {".gz": "gzip", ".zst": "zstd"}
_STEP, _BUFFER = 1 << 20, 1 << 16


def codec_of(path: str) -> str | None:
    """How a file is compressed, by the end of its name; None where it is not."""
    return CODECS.get(os.path.splitext(path)[1].lower())


def without_codec(path: str) -> str:
    """The path without the extension that says how the file is compressed."""
    return os.path.splitext(path)[0] if codec_of(path) else path


def open_text(path: str) -> BinaryIO:
    """The bytes of a text file, decompressed."""
    codec = codec_of(path)
    return open(path, "rb") if codec is None else cast(BinaryIO, io.BufferedReader(_Decompressed(path, codec), _BUFFER))


def text_size(path: str) -> int:
    """How many bytes the text of a compressed file has: it is read to its end, which also shows whether it is whole."""
    size = 0
    with open_text(path) as file:
        while block := file.read(_STEP):
            size += len(block)
    return size


class _Decompressed(io.RawIOBase):
    """A stream that can seek, forwards by reading on and backwards by beginning anew."""

    def __init__(self, path: str, codec: str) -> None:
        self._path, self._codec, self._at = path, codec, 0
        self._stream = self._opened()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: object) -> int:
        view = memoryview(cast(bytearray, buffer)).cast("B")
        data = self._read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_END:
            raise io.UnsupportedOperation("the end of a compressed file is not known before it is reached")
        target = offset + (self._at if whence == io.SEEK_CUR else 0)
        if target < self._at:
            self._stream.close()
            self._stream, self._at = self._opened(), 0
        while self._at < target and self._read(min(_STEP, target - self._at)):
            pass
        return self._at

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

    def _opened(self) -> pa.CompressedInputStream:
        return pa.CompressedInputStream(open_arrow(self._path), self._codec)

    def _read(self, size: int) -> bytes:
        try:
            data: bytes = self._stream.read(size)
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"`{self._path}` is no complete {self._codec} file",
                detail=f"behind {self._at:,} bytes of text: {error}",
                hint="the file is damaged or was still being written: replace it by a whole one, under another name "
                "if a part of it has been read",
            ) from error
        self._at += len(data)
        return data


class OpenStreams:
    """Compressed files that stand open where a range of them ended, so that the next range is read on from there. They
    are few, and belong to one process: a stream that was inherited is shared with the parent, and left alone."""

    def __init__(self, most: int = 4) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: dict[tuple[int, FileId, int], tuple[BinaryIO, int]] = {}

    def take(self, file: FileId, start: int) -> tuple[BinaryIO, int] | None:
        """The stream of a file whose last range ended at `start`, and the offset of the first line behind it."""
        with self._lock:
            return self._kept.pop((os.getpid(), file, start), None)

    def keep(self, file: FileId, end: int, stream: BinaryIO, line: int) -> None:
        with self._lock:
            self._kept[os.getpid(), file, end] = stream, line
            while len(self._kept) > self._most:
                process, *_ = oldest = next(iter(self._kept))
                stream, _ = self._kept.pop(oldest)
                if process == os.getpid():
                    stream.close()
