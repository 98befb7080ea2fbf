"""The written format of manifests: a checksum and the body it covers, and one reader for each format that is read.

The first field of a body is the number of its format. What is written is always the newest format. A format that
changes gets the next number and a module like `format_6`; the reader of the one before stays in the table for as long
as its checkpoints are to be continued.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import xxhash

from penstock.checkpoint import format_5, format_6
from penstock.state.model import Manifest

FORMAT = format_6.NUMBER  # the one that is written
Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class FormatReader:
    """Reads bodies of one format. Both functions raise ValueError, with the reason, if a body is not valid."""

    manifest: Callable[[bytes], Manifest]
    names: Callable[[bytes], set[str]]


READERS: dict[int, FormatReader] = {
    5: FormatReader(format_5.read, format_5.names),
    6: FormatReader(format_6.read, format_6.names),
}


class UnreadableFormat(Exception):
    """The manifest has a format that is not in the table of readers."""

    def __init__(self, found: int) -> None:
        super().__init__(f"format {found}")
        self.found = found


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of a manifest file."""

    checksum: str
    body: msgspec.Raw


class _FormatVersion(msgspec.Struct, frozen=True):
    """The part of a body that is read first."""

    format: int


def encode(manifest: Manifest) -> bytes:
    """Return the content of a manifest file."""
    body = format_6.write(manifest)
    return msgspec.json.encode(_Envelope(xxhash.xxh3_64_hexdigest(body), msgspec.Raw(body)))


def decode(data: bytes) -> Manifest:
    """Return the manifest of a file's content. Raises ValueError with the reason if it is not valid, UnreadableFormat
    if its format is not read."""
    return _read(data, lambda reader: reader.manifest)


def decode_names(data: bytes) -> set[str]:
    """Return the names of the runs and staged files in a file's content; raises as `decode` does."""
    return _read(data, lambda reader: reader.names)


def _read(data: bytes, part: Callable[[FormatReader], Callable[[bytes], Parsed]]) -> Parsed:
    """Check the checksum, and read the body with a function of the reader of its format."""
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
        body = bytes(envelope.body)
        if xxhash.xxh3_64_hexdigest(body) != envelope.checksum:
            raise ValueError("its checksum does not match its content")
        version = msgspec.json.decode(body, type=_FormatVersion).format
        if version not in READERS:
            raise UnreadableFormat(version)
        return part(READERS[version])(body)
    except RecursionError as error:
        raise ValueError(str(error)) from error
