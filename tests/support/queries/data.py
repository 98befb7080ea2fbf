"""Random rows and simple random queries, drawn from a seed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random

import pyarrow as pa

import penstock as ps
from penstock.api.aggregates import AggregateSpec
from penstock.api.streams import Stream
from penstock.api.windows import WindowSpec
from penstock.arrow import schema_of

SECOND = 1_000_000
MICROSECOND = timedelta(microseconds=1)  # or one unit of a BIGINT time
SCHEMA = schema_of({"ts": pa.timestamp("us"), "k": pa.int64(), "s": pa.string(), "f": pa.float64(), "i": pa.int32()})
_KEYS = ["k", "s", "f", "i"]


def random_rows(random: Random, most: int = 200, span: int = 60 * SECOND) -> pa.Table:
    """Draw rows in order of time, at most `most`."""
    count = random.choice([0, 1, 3, most // 4, most])
    return rows_from(random, count, random_origin(random, span), random_grain(random), span)


def random_origin(random: Random, span: int = 60 * SECOND) -> int:
    """Draw the time of the first rows in microseconds: after or before 1970, or about now."""
    return random.choice([0, -span // 2, 1_700_000_000 * SECOND])


def random_grain(random: Random) -> int:
    """Draw the unit of which all times are multiples; a coarse one gives equal times, and times on window borders."""
    return random.choice([1, SECOND // 2, SECOND, 5 * SECOND])


def rows_from(random: Random, count: int, origin: int, grain: int, span: int = 60 * SECOND) -> pa.Table:
    """Draw `count` rows in order of time, with nulls and repeated rows, sometimes all of one key."""
    times = sorted(origin + random.randrange(span) // grain * grain for _ in range(count))
    keys = random.choice([1, 3, 20])

    def maybe(value: object) -> object:
        return None if random.random() < 0.1 else value

    rows = [
        (
            t,
            maybe(random.randrange(keys)),
            maybe(random.choice(["", "a", "bb", "ä€"]) + "x" * random.randrange(keys)),
            maybe(random.choice([0.0, -0.0, 1.5, float("nan"), random.uniform(-100, 100)])),
            maybe(random.randrange(-5, 5)),
        )
        for t in times
    ]
    rows = [rows[n - 1] if n and random.random() < 0.1 else row for n, row in enumerate(rows)]
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)


def random_window(random: Random, time: str | None = None, unit: int = SECOND) -> WindowSpec:
    """Draw a window in multiples of `unit`."""
    size, slide = random.choice([(10, 10), (10, 5), (20, 3), (7, 3), (30, 1), (4, 10), (60, 60)])
    size, slide, offset = size * unit, slide * unit, random.choice([0, 0, unit // 2, 7 * unit])
    return ps.sliding(size * MICROSECOND, every=slide * MICROSECOND, offset=offset * MICROSECOND, time=time, gaps=True)


_AGGREGATES: list[Callable[[Random], AggregateSpec]] = [
    lambda r: ps.count(),
    lambda r: ps.count(r.choice(_KEYS)),
    lambda r: ps.sum(r.choice(["k", "i"])),
    lambda r: ps.sum(ps.col("k") * 2 + ps.col("i")),
    lambda r: ps.avg(r.choice(["k", "i"])),
    lambda r: ps.min(r.choice(["ts", *_KEYS])),
    lambda r: ps.max(r.choice(["ts", *_KEYS])),
    lambda r: ps.stddev(r.choice(["k", "i"])),
    lambda r: ps.var_pop("i"),
    lambda r: ps.count_distinct(r.choice(_KEYS)),
    lambda r: ps.first(r.choice(_KEYS)),
    lambda r: ps.last(r.choice(_KEYS)),
]


def random_query(random: Random, stream: Stream) -> Stream:
    """Draw a stateless query, an aggregate, or an aggregate of an aggregate."""
    if random.random() < 0.4:
        stream = stream.where(random.choice([ps.col("i") > 0, ps.col("k").is_not_null(), ps.col("s").like("a%")]))
    if random.random() < 0.15:
        return stream.select("ts", "k", d=ps.col("i") * 3)
    grouped = stream.group_by(*random.sample(_KEYS, random.randrange(3))).window(random_window(random))
    measures = {f"m{n}": random.choice(_AGGREGATES)(random) for n in range(random.randint(1, 4))}
    result = grouped.agg(n=ps.count(), **measures)
    if random.random() < 0.3:
        result = result.where(ps.col("n") > 1)
    if random.random() < 0.25:
        result = result.group_by().window(random_window(random)).agg(rows=ps.count(), most=ps.max("n"))
    return result
