"""Narrow rows: a time, a key out of KEYS, all equally likely, and a number between 0 and 100."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.arrow import schema_of
from penstock_bench.rows.stream import rows_of_file, sorted_times

KEYS = 100_000
NARROW_SCHEMA = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "v": pa.float64()})


def narrow_rows(seed: int, total: int, file: int) -> pa.Table:
    count, draw = rows_of_file(total, file), np.random.default_rng([seed, file])
    columns = [sorted_times(draw, count, file), draw.integers(0, KEYS, count), draw.uniform(0.0, 100.0, count)]
    return pa.table(columns, schema=NARROW_SCHEMA)
