"""The process of `join-memory`: a band join that keeps all its rows, and the memory of it once they are in."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb

import penstock as ps
from penstock_bench.check.digest import Digest, digest, parquet
from penstock_bench.experiments.part import serve
from penstock_bench.experiments.process_memory import Memory, heap_of, memory_now
from penstock_bench.experiments.scripted import SCHEMA
from penstock_bench.system import Limits

BAND_SECONDS = 86_400
FILES_PER_TRIGGER = 2
JOINED = f"""
    SELECT a.k AS k, a.ts AS ts, b.ts AS right_ts, a.v AS v, b.v AS right_v FROM a JOIN b ON a.k = b.k
    AND b.ts BETWEEN a.ts - INTERVAL {BAND_SECONDS} SECONDS AND a.ts + INTERVAL {BAND_SECONDS} SECONDS"""


@dataclass(frozen=True)
class Question:
    """`rows` has the folders a and b, with `count` rows in all."""

    system: str
    rows: str
    count: int
    master: str
    cores: int
    scratch: str


@dataclass(frozen=True)
class Answer:
    memory: Memory
    rows_out: int
    equal: bool


def measure(question: Question) -> Answer:
    memory = MEASURES[question.system](question)
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        found = _digest(connection, parquet(Path(question.scratch) / "rows"))
        for name in "ab":
            connection.read_parquet(f"{question.rows}/{name}/*.parquet").create_view(name)
        expected = _digest(connection, f"({JOINED})")
    return Answer(memory, found.rows, found.same(expected))


def _digest(connection: duckdb.DuckDBPyConnection, relation: str) -> Digest:
    return digest(connection, relation, ("k", "epoch_us(ts)", "epoch_us(right_ts)", "v", "right_v"))


def _of_penstock(question: Question) -> Memory:
    """The files are followed, so that the state stays when all rows are in."""
    a, b = (
        ps.read.files(f"{question.rows}/{n}/*.parquet", time="ts", progress=ps.ordered(), follow=True, name=n)
        for n in "ab"
    )
    scratch = Path(question.scratch)
    ready = a.join(b, on="k", within=f"{BAND_SECONDS}s").to.files(str(scratch / "rows"))
    run = ready.start(str(scratch / "checkpoint"), sites=question.cores, master=question.master)
    while run.running and run.progress.rows_in < question.count:
        time.sleep(0.05)
    memory = memory_now(_heap_of_master(question.master), scratch / "checkpoint")
    run.stop()
    return memory


def _heap_of_master(master: str) -> Callable[[], int]:
    """Without Spark there is no JVM."""
    if master == "inline":
        return lambda: 0
    from penstock.spark.session import spark_context

    return lambda: heap_of(spark_context(master))


def _of_spark(question: Question) -> Memory:
    from penstock_bench.systems.spark_live import SparkLive, state_bytes

    scratch = Path(question.scratch)
    spark = SparkLive(Limits(cores=question.cores), scratch / "spark")
    streams = {name: Path(question.rows) / name for name in "ab"}
    query = spark.start(streams, SCHEMA, JOINED, scratch, FILES_PER_TRIGGER)
    query.processAllAvailable()
    memory = memory_now(lambda: heap_of(spark.context), scratch / "checkpoint", state_bytes(query))
    query.stop()
    spark.close()
    return memory


MEASURES: dict[str, Callable[[Question], Memory]] = {"penstock": _of_penstock, "spark": _of_spark}

if __name__ == "__main__":
    serve(Question, measure)
