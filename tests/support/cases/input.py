"""Input of a case: which rows arrive in which epoch, and in which splits.

    epoch 1
    ts                  | k
    1970-01-01 00:00:01 | a
    split
    1970-01-01 00:00:02 | b
    epoch 2
    nothing

`split` begins another split of the same epoch; `split north` one of the substream `north`, which has its own progress.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from tests.support.cases.table import cells, table_of
from tests.support.cases.text import CaseError

SUBSTREAM = "case"


@dataclass(frozen=True)
class Part:
    """The rows of one split."""

    substream: str
    rows: pa.Table


Epochs = tuple[tuple[Part, ...], ...]


@dataclass
class _Epoch:
    """An epoch while its lines are parsed: the header, and the lines of each split with its substream."""

    header: list[str | None] | None = None
    splits: list[tuple[str, list[list[str | None]]]] = field(default_factory=lambda: [(SUBSTREAM, [])])

    def take(self, line: str) -> None:
        """Take the next line."""
        word, *rest = line.split(maxsplit=1)
        if word == "split" and "|" not in line:
            self.splits.append((rest[0] if rest else SUBSTREAM, []))
        elif self.header is None:
            self.header = cells(line)
        else:
            self.splits[-1][1].append(cells(line))

    def parts(self, schema: pa.Schema) -> tuple[Part, ...]:
        """Return the splits that have rows."""
        filled = [(substream, rows) for substream, rows in self.splits if rows]
        return tuple(Part(substream, table_of(self.header or [], rows, schema)) for substream, rows in filled)


def read_input(text: str, schema: pa.Schema) -> Epochs:
    """Parse an input into epochs, each with the rows of its splits."""
    epochs: list[_Epoch] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line == f"epoch {len(epochs) + 1}":
            epochs.append(_Epoch())
        elif not epochs or line.startswith("epoch "):
            raise CaseError(f"the input has `{line}` where `epoch {len(epochs) + 1}` was expected")
        elif line != "nothing":
            epochs[-1].take(line)
    return tuple(epoch.parts(schema) for epoch in epochs)


def epochs_in(text: str) -> int:
    """Return the number of epochs of an input."""
    return sum(line.strip().startswith("epoch ") for line in text.splitlines())


def cut_again(epochs: Epochs, random: Random) -> Epochs:
    """Divide the splits of each epoch into smaller ones."""
    return tuple(tuple(piece for part in epoch for piece in _pieces(part, random)) for epoch in epochs)


def _pieces(part: Part, random: Random) -> list[Part]:
    size = random.randint(1, part.rows.num_rows)
    return [Part(part.substream, part.rows.slice(start, size)) for start in range(0, part.rows.num_rows, size)]
