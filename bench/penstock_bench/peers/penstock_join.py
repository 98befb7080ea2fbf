"""The join on Penstock: SQL over files in, files out; the memory of a site is its share of what there is."""

from __future__ import annotations

import time
from pathlib import Path

from penstock.api.script import read_script
from penstock.api.write import Ready
from penstock.events import EpochCommitted, Event
from penstock.spark.session import spark_context
from penstock_bench.peers.child import Prepared, Question
from penstock_bench.peers.penstock_options import options
from penstock_bench.peers.scale import MEBIBYTE, STREAMS
from penstock_bench.peers.texts import JOIN
from penstock_bench.peers.told import tell

IDLE_SECONDS = 1.0  # for the watchdog to see idle workers
_FEW_ROWS = "connector = 'joinable', stream = {number}, rows = 600, tuple_range = 600"


def prepare(question: Question) -> Prepared:
    """Start Spark, whose heap is the base: no row is in it; and the workers, by a join of a few rows."""
    given = options(question.scale, question.option)
    spark_context(given["master"], options={"spark.driver.memory": f"{question.scale.base // MEBIBYTE}m"})
    scratch, progress = Path(question.scratch), Progress(Path(question.told))
    _ready(_FEW_ROWS, scratch / "few-results").start(str(scratch / "few"), **given).wait()
    ready = _ready(f"connector = 'files', path = '{question.rows}/{{name}}/*.parquet'", Path(question.results))
    time.sleep(IDLE_SECONDS)

    def run() -> int:
        tell(Path(question.told), 0)
        started = ready.start(str(scratch / "checkpoint"), **(given | {"on_event": progress.take}))
        started.wait()
        return started.progress.rows_in

    return run


class Progress:
    """Tells of every epoch that was committed."""

    def __init__(self, file: Path) -> None:
        self._file, self._rows, self._epochs = file, 0, 0

    def take(self, event: Event) -> None:
        if isinstance(event, EpochCommitted):
            self._rows, self._epochs = self._rows + event.rows_in, self._epochs + 1
            tell(self._file, self._rows, self._epochs)


def _ready(source: str, results: Path) -> Ready:
    """Return the join into files; `source` are the options of a source, which is in order of time."""
    sources = [
        f"CREATE SOURCE {name} (WATERMARK FOR ts AS ts) WITH ({source.format(name=name, number=number)})"
        for number, name in enumerate(STREAMS)
    ]
    sink = f"CREATE SINK result WITH (connector = 'files', path = '{results}') AS {JOIN}"
    (query,) = read_script(";\n".join([*sources, sink]), "overflow-peers").queries
    return query.ready
