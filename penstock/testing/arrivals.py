"""Random orders of arrival: out of order within a bound, and divided into batches."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pyarrow as pa


def disordered(random: Random, rows: pa.Table, slack: int, time: str = "ts") -> pa.Table:
    """Return `rows`, given in order of `time`, in a random order of arrival: each row at most `slack` behind the latest
    time before it. `slack` is in microseconds if the time is a TIMESTAMP."""
    times = rows.column(time).cast(pa.int64()).to_numpy().tolist()
    arrival = sorted(range(len(times)), key=lambda n: (times[n] + random.randint(0, slack), random.random()))
    return rows.take(arrival) if arrival else rows


def cut(random: Random, rows: pa.Table, most_parts: int = 8) -> list[pa.Table]:
    """Divide the rows into at most `most_parts` batches at random; some may be empty."""
    borders = sorted(random.randint(0, rows.num_rows) for _ in range(random.randrange(most_parts)))
    bounds = [0, *borders, rows.num_rows]
    return [rows.slice(low, high - low) for low, high in pairwise(bounds)]
