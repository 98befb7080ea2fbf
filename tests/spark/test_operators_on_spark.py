"""Every operator on Spark: several sources that are cut differently, so that in some epochs one of them has nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import ModuleType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

import penstock as ps
from penstock.plan.compile.subqueries import compile_query
from penstock.testing import Way, assert_same_rows, batch_answer, disordered
from penstock.testing.source_rows import tables_of
from tests.support.cases.input import Part
from tests.support.late_answer import BY_WINDOW, expected, readable
from tests.support.queries.data import SECOND

pytestmark = pytest.mark.spark
MASTER = "local[2,4]"
SLACK = 2 * SECOND
Sources = tuple[ps.Stream, ps.Stream, ps.Stream]
QueryOf = Callable[[ps.Stream, ps.Stream, ps.Stream], ps.Stream]


@pytest.fixture
def sources(random: Random) -> Sources:
    """Of the second one nothing comes in the second epoch, and the third one has ended by then."""
    return (
        source(random, "a", rows=90, batches=5, splits=3),
        source(random, "b", rows=60, batches=4, splits=1, empty=1),
        source(random, "c", rows=40, batches=1, splits=7),
    )


def source(random: Random, name: str, rows: int, batches: int, splits: int, empty: int | None = None) -> ps.Stream:
    arrived = disordered(random, minute(random, rows), SLACK)
    size = -(-rows // batches)
    parts = [arrived.slice(first, size) for first in range(0, rows, size)]
    if empty is not None:
        parts.insert(empty, arrived.slice(0, 0))
    return ps.read.batches(
        parts, time="ts", progress=ps.slack(f"{SLACK}us"), splits_per_batch=splits, one_batch_per_offer=True, name=name
    )


def minute(random: Random, count: int) -> pa.Table:
    """Rows in order of time, some without a key or a value."""
    times = sorted(random.randrange(-30, 30) * SECOND + random.choice([0, 1]) for _ in range(count))
    keys, values = (
        [None if random.random() < 0.1 else random.randrange(5) for _ in times],
        [None if random.random() < 0.1 else random.randrange(9) for _ in times],
    )
    return pa.table({"ts": pa.array(times, pa.timestamp("us")), "k": pa.array(keys, pa.int64()), "v": values})


@pytest.fixture
def way(random: Random) -> Way:
    return Way(
        sites=random.choice([1, 2, 3]),
        groups_per_site=random.choice([1, 16]),
        items=random.choice([None, 4]),
        item_rows=random.choice([10, 1_000_000]),
        hash_bits=random.choice([64, 8]),
    )


less = ps.col("v") < ps.col("right_v")
QUERIES: dict[str, QueryOf] = {
    "inner band join": lambda a, b, c: a.join(b, "k", within=("2s", "4s")),
    "left outer band join": lambda a, b, c: a.join(b, "k", within=("1s", "3s"), kind="left", where=less),
    "three-way join": lambda a, b, c: ps.join_all([a, b, c], "k", within="3s"),
    "theta join": lambda a, b, c: a.theta_join(b, less, within="1s"),
    "theta join over rows": lambda a, b, c: a.theta_join(b, less, last_rows=(3, 5)),
    "distinct of a union": lambda a, b, c: a.union(b, c).select("ts", "k").distinct(),
    "session": lambda a, b, c: a.group_by("k").window(ps.session("3s")).agg(n=ps.count(), last=ps.last("v")),
    "windows of rows": lambda a, b, c: a.group_by("k").window(ps.rows(20, every=7)).agg(n=ps.count(), sum=ps.sum("v")),
    "moments of both times of a join": lambda a, b, c: (
        a.join(b, "k", within=("0s", "3s")).group_by("k").at("ts", "right_ts").agg(n=ps.count())
    ),
}


def busiest(a: ps.Stream, b: ps.Stream, c: ps.Stream) -> ps.Stream:
    """A chain of three subqueries."""
    pairs = a.join(b.union(c), "k", within="2s").group_by("v").window(ps.tumbling("10s", time="ts"))
    return pairs.agg(n=ps.count()).top(2, ps.desc("n"), number="place")


def run(stream: ps.Stream, folder: Path, way: Way, **options: object) -> pa.Table:
    ready = stream.to.memory()
    exchange = "spark" if way.sites == 2 else "direct"  # so that both are tried
    settings = {"exchange": exchange, **way.settings(), **options}
    run = ready.start(str(folder / "ck"), master=MASTER, epoch="1ms", **settings).wait(120)
    assert (run.progress.state, run.progress.late_rows) == ("finished", 0)
    return run.result()


def check(stream: ps.Stream, folder: Path, way: Way, **options: object) -> pa.Table:
    got, want = run(stream, folder, way, **options), batch_answer(stream.node, tables_of(stream.node))
    assert want.num_rows > 0, "the query finds nothing"
    assert_same_rows(got, want, f"{way}\n{stream.explain()}")
    return got


@pytest.mark.parametrize("name", QUERIES)
def test_an_operator(name: str, spark: SparkContext, sources: Sources, way: Way, tmp_path: Path) -> None:
    check(QUERIES[name](*sources), tmp_path, way)


def test_a_chain_of_three_subqueries(spark: SparkContext, sources: Sources, way: Way, tmp_path: Path) -> None:
    stream = busiest(*sources)
    assert len(compile_query(stream.to.memory().sink).program.subqueries) == 3
    check(stream, tmp_path, way)


def with_odd(rows: pa.Table) -> pa.Table:
    return rows.append_column("odd", pc.equal(pc.bit_wise_and(rows.column("v"), 1), 1))


def test_functions_travel_to_the_workers(spark: SparkContext, sources: Sources, way: Way, tmp_path: Path) -> None:
    """A closure and a lambda go by value; a function of a module goes by name, and the module is found."""
    factor = 3

    def scaled(rows: pa.Table) -> pa.Table:
        return rows.set_column(2, "v", pc.multiply(rows.column("v"), factor))

    columns = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "BIGINT"}
    a, b, _ = sources
    left = a.map_batches(scaled, columns).map_batches(with_odd, {**columns, "odd": "BOOLEAN"})
    right = b.map_batches(lambda rows: rows.filter(pc.is_valid(rows.column("k"))), columns)
    check(left.join(right, "k", within="2s"), tmp_path, way)


def test_what_is_wrong_with_a_function_is_told(
    spark: SparkContext, sources: Sources, way: Way, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, elsewhere = threading.Lock(), ModuleType("elsewhere")
    exec("def same(rows): return rows", elsewhere.__dict__)

    def broken(rows: pa.Table) -> pa.Table:
        return rows.select(["nowhere"])

    def locked(rows: pa.Table) -> pa.Table:
        with lock:
            return rows

    monkeypatch.setitem(sys.modules, "elsewhere", elsewhere)  # here, but nowhere that workers could find it
    assert "nowhere" in _refusal(sources[0], broken, way, "the function `.*broken` failed")
    assert "cannot pickle '_thread.lock'" in _refusal(sources[0], locked, way, "cannot be sent to the workers")
    for _ in range(2):
        told = _refusal(sources[0], elsewhere.same, way, "failed repeatedly")
        assert told == "ModuleNotFoundError: No module named 'elsewhere'"
        SparkSession(spark)  # from now on PySpark raises errors of another class


def _refusal(stream: ps.Stream, function: Callable[[pa.Table], pa.Table], way: Way, what: str) -> str:
    mapped = stream.map_batches(function, {"ts": "TIMESTAMP"})
    with pytest.raises(ps.PenstockError, match=what) as caught:
        mapped.to.memory().start(master=MASTER, **way.settings()).wait(120)
    return caught.value.detail


def test_in_order_mode_gives_functions_their_rows_in_order(
    spark: SparkContext, sources: Sources, way: Way, tmp_path: Path
) -> None:
    def with_order(rows: pa.Table) -> pa.Table:
        times = rows.column("ts").cast(pa.int64()).to_pylist()
        return rows.append_column("in_order", pa.array([times == sorted(times)] * len(times)))

    a, b, c = sources
    columns = {"ts": "TIMESTAMP", "k": "BIGINT", "v": "BIGINT", "in_order": "BOOLEAN"}
    mapped = a.union(b, c).map_batches(with_order, columns)
    got = run(mapped, tmp_path, way, order="in")
    want = pa.concat_tables(tables_of(mapped.node).values())
    assert_same_rows(got.drop_columns(["in_order"]), want)
    assert pc.all(got.column("in_order")).as_py()


def test_a_join_goes_on_with_other_numbers_of_sites(spark: SparkContext, sources: Sources, tmp_path: Path) -> None:
    a, b, _ = sources
    stream = a.join(b, "k", within=("2s", "4s"), kind="full", where=less)
    for sites, until in ((3, "2 epochs"), (1, "1 epochs"), (5, None)):
        ready = stream.to.files(str(tmp_path / "out"))
        run = ready.start(str(tmp_path / "ck"), master=MASTER, epoch="1ms", sites=sites, until=until).wait(120)
        assert run.progress.state == ("stopped" if until else "finished")
    got = pa.concat_tables(pq.read_table(file) for file in (tmp_path / "out").glob("*.parquet"))
    assert_same_rows(got, batch_answer(stream.node, tables_of(stream.node)))


@pytest.mark.parametrize("exchange", ["direct", "spark"])
def test_late_rows_count_in_open_windows_on_spark(exchange: str, tmp_path: Path) -> None:
    times = [[9, 14, 7], [6, 2, 30, 13], [29, 24, 31], [12, 45]]
    parts = [pa.table({"ts": pa.array([t * SECOND for t in part], pa.timestamp("us")), "k": part}) for part in times]
    stream = ps.read.batches(parts, time="ts", progress=ps.slack("2s"), splits_per_batch=2)
    query = stream.window(ps.sliding("10s", every="5s")).agg(n=ps.count(), keys=ps.sum("k"))
    ready = query.to.memory().start(str(tmp_path / "ck"), master=MASTER, epoch="1ms", exchange=exchange)
    done = ready.wait(120)
    want = expected(query.node, {"batches": tuple((Part("", part),) for part in parts)}, BY_WINDOW)
    assert_same_rows(done.result(), want.rows)
    assert_same_rows(readable(done.late), want.late["batches"])
    assert done.progress.late_rows == 4
