"""What an input stream of the benchmark is, and what the generators of its rows share.

Event time starts at START and advances by FILE_SECONDS a file; the rows of a file are in time order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray

FILES = 10
FILE_SECONDS = 30
SECOND = 1_000_000  # times are microseconds
START = 1_767_225_600 * SECOND  # 2026-01-01; also a multiple of every window in use

Maker = Callable[[int, int, int], pa.Table]


@dataclass(frozen=True)
class BenchStream:
    """A stream. `make(seed, total, file)` gives the rows of one of its FILES files, and depends on its arguments only.
    Rows have the schema, are sorted by the column `time` and lie within the file's FILE_SECONDS. `total` is the size of
    the benchmark; a stream may turn a fixed share of it into rows."""

    name: str
    schema: pa.Schema
    time: str
    seed: int
    make: Maker

    def rows(self, total: int, file: int) -> pa.Table:
        return self.make(self.seed, total, file)


def rows_of_file(total: int, file: int) -> int:
    """How many of `total` rows belong to the file: a tenth."""
    return total * (file + 1) // FILES - total * file // FILES


def sorted_times(draw: np.random.Generator, count: int, file: int) -> AnyArray:
    """`count` times of a file, uniform over its span, in order."""
    first = START + file * FILE_SECONDS * SECOND
    return pa.array(np.sort(draw.integers(first, first + FILE_SECONDS * SECOND, count))).cast(pa.timestamp("us"))
