"""The blocks of a run file: the pieces in which a host fetches what it needs of a run, each with its own checksum."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import xxhash

from penstock.state.runs import Run

BLOCK = 1 << 18  # the shortest
MOST_BLOCKS = 1024  # blocks of a large file are longer, or the manifest would grow with the bytes of the state
_DIGITS = 16  # of a checksum


def block_checksums(data: memoryview) -> str:
    """Those of all blocks, one behind the other; none where the checksum of the file says it all."""
    length = block_length(len(data))
    if len(data) <= length:
        return ""
    return "".join(xxhash.xxh3_64_hexdigest(data[at : at + length]) for at in range(0, len(data), length))


def block_length(size: int) -> int:
    """Of a file of so many bytes."""
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
    def of(cls, run: Run) -> Blocks:
        """A run without checksums of its blocks is one block."""
        return (
            cls(run.size, block_length(run.size), run.blocks) if run.blocks else cls(run.size, run.size, run.checksum)
        )

    def __len__(self) -> int:
        return -(-self.size // self.length)

    def span(self, block: int) -> tuple[int, int]:
        """From which byte to before which one it reaches."""
        return block * self.length, min(self.size, (block + 1) * self.length)

    def matches(self, block: int, content: bytes | memoryview) -> bool:
        first, end = self.span(block)
        wanted = self.checksums[block * _DIGITS : (block + 1) * _DIGITS]
        return len(content) == end - first and xxhash.xxh3_64_hexdigest(content) == wanted

    def covering(self, spans: Iterable[tuple[int, int]]) -> list[int]:
        """The blocks that have bytes of some spans, in order."""
        found: set[int] = set()
        for first, end in spans:
            if first < end:
                found.update(range(first // self.length, (end - 1) // self.length + 1))
        return sorted(found)
