"""The blocks of a run file: the units in which a host fetches the parts of a run that it needs, each with a
checksum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from penstock.state.runs import RunFile

BLOCK = 1 << 18  # bytes: the shortest length of a block
MOST_BLOCKS = 1024  # blocks of a large file are longer, so that the manifest does not grow with the bytes of state
_DIGITS = 16  # length of a checksum


def block_checksums(data: memoryview) -> str:
    """Return the checksums of all blocks, concatenated; empty for a file of one block, where the checksum of the file
    is enough."""
    length = block_length(len(data))
    if len(data) <= length:
        return ""
    return "".join(xxhash.xxh3_64_hexdigest(data[at : at + length]) for at in range(0, len(data), length))


def block_length(size: int) -> int:
    """Return the length of the blocks of a file of `size` bytes."""
    length = BLOCK
    while size > length * MOST_BLOCKS:
        length *= 2
    return length


@dataclass(frozen=True)
class Blocks:
    """The file of a run as blocks of `length` bytes, the last of which may be shorter."""

    size: int
    length: int
    checksums: str

    @classmethod
    def of(cls, run: RunFile) -> Blocks:
        """Return the blocks of a run; a run without block checksums is one block."""
        return (
            cls(run.size, block_length(run.size), run.blocks) if run.blocks else cls(run.size, run.size, run.checksum)
        )

    def __len__(self) -> int:
        return -(-self.size // self.length)

    def span(self, block: int) -> tuple[int, int]:
        """Return the byte range [first, end) of a block."""
        return block * self.length, min(self.size, (block + 1) * self.length)

    def matches(self, block: int, content: bytes | memoryview) -> bool:
        """Return whether `content` has the length and the checksum of a block."""
        first, end = self.span(block)
        wanted = self.checksums[block * _DIGITS : (block + 1) * _DIGITS]
        return len(content) == end - first and xxhash.xxh3_64_hexdigest(content) == wanted

    def covering(self, spans: Iterable[tuple[int, int]]) -> list[int]:
        """Return the blocks that overlap the byte ranges, sorted."""
        found: set[int] = set()
        for first, end in spans:
            if first < end:
                found.update(range(first // self.length, (end - 1) // self.length + 1))
        return sorted(found)
