"""Read text files compressed by gzip or Zstandard as plain text.

A compressed file can only be read from its start. It is read as a stream, in little memory; offsets are those of the
text, and seeking backwards restarts at the beginning.
"""

from __future__ import annotations

import io
import os
import threading
from typing import BinaryIO, Literal, TypeAlias, cast

import pyarrow as pa

from penstock.connectors.files.listing import FileId, open_arrow
from penstock.errors import SourceError

Codec: TypeAlias = Literal["gzip", "zstd"]

CODECS: dict[str, Codec] = {".gz": "gzip", ".zst": "zstd"}
_STEP, _BUFFER = 1 << 20, 1 << 16


def codec_of(path: str) -> Codec | None:
    """Return the codec of a file by its extension; None if it is not compressed."""
    return CODECS.get(os.path.splitext(path)[1].lower())


def without_codec(path: str) -> str:
    """Return the path without the extension of its codec."""
    return os.path.splitext(path)[0] if codec_of(path) else path


def open_text(path: str) -> BinaryIO:
    """Open a text file for reading its decompressed bytes."""
    codec = codec_of(path)
    return open(path, "rb") if codec is None else cast(BinaryIO, io.BufferedReader(_Decompressed(path, codec), _BUFFER))


def text_size(path: str) -> int:
    """Return the number of bytes of the text in a compressed file. Reads the whole file, so a truncated one is an
    error."""
    size = 0
    with open_text(path) as file:
        while block := file.read(_STEP):
            size += len(block)
    return size


class _Decompressed(io.RawIOBase):
    """A decompressed stream that can seek: forwards by reading on, backwards by starting again."""

    def __init__(self, path: str, codec: Codec) -> None:
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
        """Move to an offset of the text and return it; at most the end of the text. The end cannot be a reference."""
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
                f"`{self._path}` is not a complete {self._codec} file",
                detail=f"after {self._at:,} bytes of text: {error}",
                hint="the file is damaged or was still being written: replace it with a complete one, "
                "under another name if a part of it has been read",
            ) from error
        self._at += len(data)
        return data


class OpenStreams:
    """A small cache of compressed files, open at the end of the last range read, so that the next range continues
    there.

    A stream belongs to one process: one inherited by a fork shares its position with the parent and is not used.
    """

    def __init__(self, most: int = 4) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: dict[tuple[int, FileId, int], tuple[BinaryIO, int]] = {}

    def take(self, file: FileId, start: int) -> tuple[BinaryIO, int] | None:
        """Remove and return the stream whose last range ended at `start`, and the offset of its next line; None if not
        cached."""
        with self._lock:
            return self._kept.pop((os.getpid(), file, start), None)

    def keep(self, file: FileId, end: int, stream: BinaryIO, line: int) -> None:
        """Cache the stream at the end of a range; `line` is the offset of its next line. The oldest stream is
        evicted."""
        with self._lock:
            self._kept[os.getpid(), file, end] = stream, line
            while len(self._kept) > self._most:
                process, *_ = oldest = next(iter(self._kept))
                stream, _ = self._kept.pop(oldest)
                if process == os.getpid():
                    stream.close()
