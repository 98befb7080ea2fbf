"""How fast the band join's kernel is on one core: rows that probe a large state, equally many matches at every size.

python bench/kernels/band_join_speed.py [rows of state ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from time import perf_counter

import numpy as np
import pyarrow as pa

from penstock.kernels.hash import hash_columns
from penstock.operators.band_join.join import BandJoin
from penstock.operators.bands import Band
from penstock.operators.protocol import Portion, Stored
from penstock.progress.mark import BEGIN, at
from penstock.state.runs import TIME

PROBES = 1_000_000
ROWS_PER_KEY = 4
SPAN = 1_000_000  # event times of the state
BAND = 250_000  # to either side: each probe meets about half of the rows of its key
REPEATS = 5


def join() -> BandJoin:
    schemas = tuple(pa.schema([(f"k{p}", pa.int64()), (f"t{p}", pa.int64()), (f"v{p}", pa.int64())]) for p in (0, 1))
    names = tuple(tuple(schema.names) for schema in schemas)
    return BandJoin("inner", schemas, (("k0",), ("k1",)), ("t0", "t1"), names, (Band(0, 1, BAND, BAND),))


def arriving(rows_of_state: int, probes: int = PROBES, rows_per_key: int = ROWS_PER_KEY) -> pa.Table:
    """Rows as they come in at port 0."""
    random = np.random.default_rng(2)
    columns = [
        random.integers(0, rows_of_state // rows_per_key, probes),
        random.integers(0, SPAN, probes),
        np.arange(probes),
    ]
    return pa.table(columns, schema=join().schemas[0])


def portion(rows_of_state: int, runs: int = 1, probes: int = PROBES, rows_per_key: int = ROWS_PER_KEY) -> Portion:
    """Fresh rows at port 0; state at port 1, in runs that follow each other in time."""
    random = np.random.default_rng(1)
    different = rows_of_state // rows_per_key
    fresh = join().prepare(0, arriving(rows_of_state, probes, rows_per_key))
    state = _state(random, different, rows_per_key)
    stored = [Stored(_between(state, *border), *border) for border in _borders(runs)] if runs > 1 else [state]
    return Portion(((), stored), (fresh, join().state_schema(1).empty_table()), (BEGIN, BEGIN), (at(0), at(0)))


def _state(random: np.random.Generator, different: int, rows_per_key: int) -> Stored:
    """All keys equally often, built in the order of their hashes: a sort of all rows would need much more memory."""
    keys = np.arange(different)
    hashes = hash_columns([pa.array(keys)])
    order = np.argsort(hashes)
    times = np.sort(random.integers(0, SPAN, (different, rows_per_key)), axis=1).ravel()
    columns = [np.repeat(hashes[order], rows_per_key), times, np.repeat(keys[order], rows_per_key), times + 1]
    return Stored(pa.table(columns, schema=join().state_schema(1)), 0, SPAN)


def _borders(runs: int) -> list[tuple[int, int]]:
    return [(run * SPAN // runs, (run + 1) * SPAN // runs - 1) for run in range(runs)]


def _between(state: Stored, least: int, largest: int) -> pa.Table:
    times = state.rows.column(TIME).to_numpy()
    return state.rows.filter(pa.array((times >= least) & (times <= largest))).combine_chunks()


def matches(work: Portion) -> int:
    """Does the work, and counts the results."""
    return sum(table.num_rows for table in join().work(work).results)


def epoch(rows: pa.Table, work: Portion) -> int:
    """All that an epoch costs the operator: rows are prepared as they come in, and then meet the state."""
    return matches(replace(work, fresh=(join().prepare(0, rows), work.fresh[1])))


def seconds(call: Callable[[], int]) -> list[float]:
    """How long some calls took, the shortest first."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
    return sorted(times)


def report(rows_of_state: int, runs: int) -> None:
    work, rows = portion(rows_of_state, runs), arriving(rows_of_state)
    probing, whole = seconds(lambda: matches(work)), seconds(lambda: epoch(rows, work))
    print(
        f"{rows_of_state:>12,} rows of state in {runs} run(s): {PROBES / median(probing) / 1e6:5.2f} M probes/s"
        f" ({PROBES / probing[0] / 1e6:.2f} at best), {matches(work):,} matches;"
        f" an epoch takes {median(whole):.3f} s ({whole[0]:.3f} at best)",
        flush=True,
    )


if __name__ == "__main__":
    pa.set_cpu_count(1)
    for size in [int(text) for text in sys.argv[1:]] or [1_000_000, 10_000_000, 100_000_000]:
        for runs in (1, 8):
            report(size, runs)
