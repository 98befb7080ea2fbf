"""Narrow rows with skewed keys. Of those that wander, another range of keys is hot in every file, so the hot range
changes every 30 s of event time, and of those that wander slowly, in every fifth; to a hash, the ranges have nothing to
do with each other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.connectors.generator.calls import BModel, Skew, Uniform, Zipf
from penstock_bench.rows.narrow import KEYS, NARROW_SCHEMA
from penstock_bench.rows.stream import FILES, BenchStream, Maker, rows_of_file, sorted_times

FEW_KEYS = 16_384
ONE_IN = 16  # of the stream `few`: what a row costs is to be paid for the rows of the other stream

# The most frequent of 100,000 keys has 0.2 %, 2 % and 38 % of the rows.
WANDERING: dict[str, Skew] = {"bmodel": BModel(0.7), "pareto": BModel(0.8), "zipf": Zipf(1.5)}
SLOWLY = "_slowly"
SLOW_FILES = 5


def skewed_rows(skew: Skew, keys: int = KEYS, range_files: int = 1, one_in: int = 1) -> Maker:
    """Rows whose keys are drawn from a skew. The hot range is another one after so many files."""

    def make(seed: int, total: int, file: int) -> pa.Table:
        count, draw = rows_of_file(total // one_in, file), np.random.default_rng([seed, file])
        times, drawn = sorted_times(draw, count, file), skew.pick(draw.random(count), keys)
        moved = (drawn + file // range_files * keys // FILES) % keys
        return pa.table([times, moved, draw.uniform(0.0, 100.0, count)], schema=NARROW_SCHEMA)

    return make


SKEWED_STREAMS = (
    *(
        BenchStream(f"{name}{pace}", NARROW_SCHEMA, "ts", 11 + n, skewed_rows(skew, range_files=files))
        for pace, files in (("", 1), (SLOWLY, SLOW_FILES))
        for n, (name, skew) in enumerate(WANDERING.items())
    ),
    BenchStream("hot", NARROW_SCHEMA, "ts", 21, skewed_rows(BModel(0.8), FEW_KEYS, FILES)),
    BenchStream("few", NARROW_SCHEMA, "ts", 22, skewed_rows(Uniform(), FEW_KEYS, FILES, ONE_IN)),
)
