"""Wide rows: a time, a key, 20 strings, 15 doubles and 13 integers, as in events that carry whatever was known.

Half of the strings are drawn from a thousand values (cities, products), half are different in every row (identifiers).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.arrow import AnyArray, arrow_buffer
from penstock_bench.rows.narrow import KEYS
from penstock_bench.rows.stream import rows_of_file, sorted_times

STRINGS, DOUBLES, INTEGERS = 20, 15, 13
SHORTEST, LONGEST = 8, 24
POOL = 1_000

WIDE_NAMES = (
    *(f"s{number:02d}" for number in range(STRINGS)),
    *(f"d{number:02d}" for number in range(DOUBLES)),
    *(f"i{number:02d}" for number in range(INTEGERS)),
)
_TYPES = [pa.string()] * STRINGS + [pa.float64()] * DOUBLES + [pa.int64()] * INTEGERS
WIDE_SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("k", pa.int64()), *zip(WIDE_NAMES, _TYPES, strict=True)])


def wide_rows(seed: int, total: int, file: int) -> pa.Table:
    count, draw = rows_of_file(total, file), np.random.default_rng([seed, file])
    columns = [sorted_times(draw, count, file), draw.integers(0, KEYS, count), *_more_columns(draw, count)]
    return pa.table(columns, schema=WIDE_SCHEMA)


def _more_columns(draw: np.random.Generator, count: int) -> list[AnyArray]:
    """`count` values for each of WIDE_NAMES, in that order."""
    pooled = [_words(draw, POOL).take(draw.integers(0, POOL, count)) for _ in range(STRINGS // 2)]
    unique = [_words(draw, count) for _ in range(STRINGS - STRINGS // 2)]
    doubles = [pa.array(draw.uniform(-1e6, 1e6, count)) for _ in range(DOUBLES)]
    integers = [pa.array(draw.integers(0, 1 << 40, count)) for _ in range(INTEGERS)]
    return [*pooled, *unique, *doubles, *integers]


def _words(draw: np.random.Generator, count: int) -> AnyArray:
    """Strings of SHORTEST to LONGEST random small letters."""
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(draw.integers(SHORTEST, LONGEST, count, endpoint=True), out=offsets[1:])
    letters = draw.integers(ord("a"), ord("z"), int(offsets[-1]), dtype=np.uint8, endpoint=True)
    return pa.StringArray.from_buffers(count, arrow_buffer(offsets), arrow_buffer(letters))
