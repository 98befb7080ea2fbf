"""Two multisets of result rows, with one thing wrong in the second."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock_bench.check.compare import Compared, compare
from penstock_bench.check.oracle import session
from penstock_bench.workload import Workload
from penstock_bench.workloads import WORKLOADS

Change = Callable[[pa.Table], pa.Table]

ROWS = 3_000
GROUPS, PAIRS = WORKLOADS["tumble"], WORKLOADS["band"]


def groups() -> pa.Table:
    """Results of `tumble`: a row for each key and window."""
    number = np.arange(ROWS)
    return pa.table(
        {
            "k": number // 10 - 100,
            "window_start": pa.array(number % 10 * 10_000_000).cast(pa.timestamp("us")),
            "n": number % 7 + 1,
            "s": number * 1.7 + 0.3,
        }
    )


def pairs() -> pa.Table:
    """Results of `band`; every tenth row is there twice, for joins may give equal rows."""
    number = np.concatenate([np.arange(ROWS), np.arange(0, ROWS, 10)])
    time = pa.array(number * 1_000_003).cast(pa.timestamp("us"))
    return pa.table({"k": number % 50, "a_ts": time, "b_ts": time, "a_v": number * 1.5, "b_v": number / 7})


def compared(table: pa.Table, changed: pa.Table, workload: Workload, rows_per_part: int = 500) -> Compared:
    with session() as connection:
        return compare(
            connection, connection.from_arrow(table), connection.from_arrow(changed), workload, rows_per_part
        )


def shuffled(table: pa.Table) -> pa.Table:
    return table.take(pa.array(np.random.default_rng(3).permutation(table.num_rows)))


def with_first(table: pa.Table, name: str, value: object) -> pa.Table:
    column = table[name]
    changed = pa.concat_arrays([pa.array([value], column.type), *column.slice(1).chunks])
    return table.set_column(table.schema.get_field_index(name), name, changed)


@pytest.mark.parametrize("rows_per_part", [10**9, 4_000, 100], ids=["one part", "a few", "many"])
@pytest.mark.parametrize(("table", "workload"), [(groups(), GROUPS), (pairs(), PAIRS)], ids=["groups", "pairs"])
def test_the_same_rows_in_another_order_are_equal(table: pa.Table, workload: Workload, rows_per_part: int) -> None:
    found = compared(table, shuffled(table), workload, rows_per_part)
    assert found == Compared(True, f"{table.num_rows} rows right, 0 missing, 0 extra, 0 wrong")


WRONG_ROWS = [
    pytest.param(lambda t: t.slice(1), "1 missing, 0 extra, 0 wrong", id="missing row"),
    pytest.param(lambda t: pa.concat_tables([t, t.slice(5, 1)]), "0 missing, 1 extra, 0 wrong", id="doubled row"),
    pytest.param(
        lambda t: pa.concat_tables([t.slice(1), t.slice(5, 1)]), "1 missing, 1 extra, 0 wrong", id="one for another"
    ),
    pytest.param(lambda t: with_first(t, "k", -1_000_000), "1 missing, 1 extra, 0 wrong", id="wrong key"),
    pytest.param(lambda t: with_first(t, "k", None), "1 missing, 1 extra, 0 wrong", id="key lost"),
    pytest.param(lambda t: t.slice(0, 0), "0 rows right", id="no rows"),
    pytest.param(lambda t: t.drop_columns(["k"]), "the result has no column k", id="no such column"),
]


@pytest.mark.parametrize(("change", "complaint"), WRONG_ROWS)
@pytest.mark.parametrize(("table", "workload"), [(groups(), GROUPS), (pairs(), PAIRS)], ids=["groups", "pairs"])
def test_a_row_that_is_wrong_is_found(table: pa.Table, workload: Workload, change: Change, complaint: str) -> None:
    found = compared(table, shuffled(change(table)), workload)
    assert not found.equal
    assert complaint in found.detail


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        pytest.param(lambda t: with_first(t, "n", 100), "0 missing, 0 extra, 1 wrong", id="wrong count"),
        pytest.param(lambda t: with_first(t, "s", 0.3 * (1 + 1e-8)), "0 missing, 0 extra, 1 wrong", id="wrong sum"),
        pytest.param(lambda t: with_first(t, "s", float("nan")), "0 missing, 0 extra, 1 wrong", id="not a number"),
        pytest.param(lambda t: with_first(t, "s", None), "0 missing, 0 extra, 1 wrong", id="no sum"),
    ],
)
def test_a_value_that_is_wrong_is_found(change: Change, complaint: str) -> None:
    found = compared(groups(), change(groups()), GROUPS)
    assert not found.equal
    assert complaint in found.detail


@pytest.mark.parametrize("name", ["a_ts", "b_ts", "a_v", "b_v"])
def test_every_column_of_a_pair_counts(name: str) -> None:
    table = pairs()
    value = 1.0 if name.endswith("_v") else 1
    found = compared(table, with_first(table, name, value), PAIRS)
    assert found.detail == f"{table.num_rows - 1} rows right, 1 missing, 1 extra, 0 wrong"


def test_of_a_doubled_row_both_copies_must_be_there() -> None:
    table = pairs()
    once = table.slice(0, ROWS)
    assert compared(table, once, PAIRS).detail == f"{ROWS} rows right, {ROWS // 10} missing, 0 extra, 0 wrong"
    assert compared(once, table, PAIRS).detail == f"{ROWS} rows right, 0 missing, {ROWS // 10} extra, 0 wrong"


def test_sums_may_differ_by_rounding() -> None:
    table = groups()
    rounded = table.set_column(3, "s", pc.multiply(table["s"], 1 + 1e-12))
    assert compared(table, rounded, GROUPS).equal


def test_how_a_system_writes_times_and_integers_does_not_matter() -> None:
    table = groups()
    zoned = table.set_column(1, "window_start", table["window_start"].cast(pa.timestamp("ms", tz="UTC")))
    narrow = zoned.set_column(0, "k", zoned["k"].cast(pa.int32())).set_column(2, "n", zoned["n"].cast(pa.int16()))
    assert compared(table, narrow, GROUPS).equal


def test_other_columns_than_the_named_ones_are_not_looked_at() -> None:
    table = groups()
    assert compared(table, table.append_column("more", table["s"]), GROUPS).equal
