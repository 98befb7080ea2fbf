"""What each configuration does to Flink, and what its source costs alone: `python -m penstock_bench.flink.compare
band`.

One Flink runs the workloads with every configuration in turns. Results are not compared here; `penstock bench` does
that.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from penstock_bench.flink.config import Configuration, checkpointed, listed_for
from penstock_bench.flink.process import Answer
from penstock_bench.flink.system import Flink
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.streams import stream_named
from penstock_bench.system import Limits
from penstock_bench.workload import Refused, Workload
from penstock_bench.workloads import workload_named

WARM_ROWS = 100_000


def source_alone(workload: Workload, stream: str) -> Workload:
    """Reads every column of every row of the stream, and gives no row: all are after 1970."""
    text = f"SELECT * FROM `{stream}` WHERE {stream_named(stream).time}_us < 0"
    return replace(workload, name=f"source {stream}", streams=(stream,), flink=text)


def questions(names: Sequence[str]) -> Iterator[Workload]:
    """The workloads that Flink can answer, each after the sources that it reads."""
    for workload in map(workload_named, names):
        yield from (source_alone(workload, stream) for stream in workload.streams)
        if not isinstance(workload.flink, Refused):
            yield workload


def compare(system: Flink, workload: Workload, work: Path, rows: int, repeat: int, slots: int) -> Iterator[str]:
    """A line for each configuration."""
    configurations = (*listed_for(str(workload.flink), slots), checkpointed(slots))
    for count, rounds in ((min(rows, WARM_ROWS), 2), (rows, repeat)):
        data = ensure_data(work / f"data-{count}", count, workload.streams)
        turns = [[_attempt(system, workload, data, one) for one in configurations] for _ in range(rounds)]
    for configuration, answers in zip(configurations, zip(*turns, strict=True), strict=True):
        yield _line(workload, configuration, answers)


def _attempt(system: Flink, workload: Workload, data: Path, configuration: Configuration) -> Answer:
    with tempfile.TemporaryDirectory(prefix="penstock-flink-") as out:
        return system.attempt(workload, data, Path(out), configuration).answer


def _line(workload: Workload, configuration: Configuration, answers: Sequence[Answer]) -> str:
    seconds = statistics.median(answer.seconds for answer in answers)
    net = statistics.median(answer.net_seconds for answer in answers)
    speed = answers[0].rows_read / seconds
    return f"{workload.name:12} {configuration.name:24} {seconds:8.2f} s {net:8.2f} s net {speed:12,.0f} rows/s"


def _given() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", nargs="+")
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--memory", type=int, default=Limits().memory_gib, help="GiB of heap")
    parser.add_argument("--work", type=Path, default=Path("bench-work"), help="folder of the input")
    return parser.parse_args()


def main() -> None:
    given = _given()
    limits, work = Limits(memory_gib=given.memory), given.work.absolute()
    system = Flink("flink", limits, work / "flink-compare")
    system.prepare()
    try:
        for workload in {one.name: one for one in questions(given.workload)}.values():
            for line in compare(system, workload, work, given.rows, given.repeat, limits.cores):
                print(line, flush=True)
    finally:
        system.close()


if __name__ == "__main__":
    main()
