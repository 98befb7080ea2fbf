"""One run of an experiment, in order or out of order: what it held after every epoch, when results came, how long it
took. The engine runs in this process; what is measured between epochs does not count into its time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal, cast

import pyarrow as pa

from penstock.api.launch import settings_from
from penstock.api.run_options import RunOptions
from penstock.api.streams import Stream
from penstock.checkpoint.manifest import epochs, read
from penstock.engine.driver.commit import source_marks
from penstock.errors import PenstockError
from penstock.events import EpochCommitted, Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.progress.mark import Mark
from penstock_bench.order.held import Held, HeldBytes

Mode = Literal["in", "out"]
MODES: tuple[Mode, ...] = ("in", "out")
_ORDER = {"in": "in", "out": "any"}


@dataclass(frozen=True)
class Epoch:
    """What an epoch left behind: `marks` is the punctuation of the sources, by name, that it and those before it read;
    `results` are the rows that it published. `cpu_seconds` is of all threads of the process."""

    held: Held
    seconds: float
    cpu_seconds: float
    marks: dict[str, Mark]
    results: pa.Table


@dataclass(frozen=True)
class Trial:
    """Invariant: at least one epoch."""

    mode: Mode
    epochs: tuple[Epoch, ...]

    @property
    def peak(self) -> Held:
        """What was held at the epoch that held most."""
        return max((epoch.held for epoch in self.epochs), key=lambda held: held.total)

    @property
    def seconds(self) -> float:
        return sum(epoch.seconds for epoch in self.epochs)

    @property
    def cpu_seconds(self) -> float:
        return sum(epoch.cpu_seconds for epoch in self.epochs)

    @property
    def results(self) -> pa.Table:
        return pa.concat_tables([epoch.results for epoch in self.epochs])


def run_trial(stream: Stream, mode: Mode) -> Trial:
    """Run a query to its end in one of the two modes."""
    with TemporaryDirectory(prefix="penstock-order-") as folder:
        watch = _Watch(stream, mode, Path(folder))
        ready = stream.to.callback(watch.published)
        run = ready.start(folder, **cast(RunOptions, {"on_event": watch.committed, **watch.options})).wait()
    if run.progress.late_rows:
        raise PenstockError("a benchmark lost rows as late", detail=f"{run.progress.late_rows} rows")
    return Trial(mode, tuple(watch.seen))


@dataclass
class _Watch:
    """Listens to a run: results are published before their epoch is told to be over."""

    stream: Stream
    mode: Mode
    folder: Path
    seen: list[Epoch] = field(default_factory=list)

    def __post_init__(self) -> None:
        query = compile_query(self.stream.to.memory().sink, CompileOptions.of(settings_from(dict(self.options))))
        self._names = [source.name for source in query.sources]
        self._held = HeldBytes(query.program, self.folder / "runs")
        self._schema, self._results = query.program.result_schema, [query.program.result_schema.empty_table()]
        self._cpu = time.process_time()

    @property
    def options(self) -> dict[str, str | int]:
        """Admission takes what a source offers: one batch for each epoch."""
        return {"master": "inline", "order": _ORDER[self.mode], "epoch": "1ms", "sites": 2}

    def published(self, epoch: int, rows: pa.Table) -> None:
        self._results.append(rows)

    def committed(self, event: Event) -> None:
        if not isinstance(event, EpochCommitted):
            return
        cpu_seconds = time.process_time() - self._cpu
        folder = self.folder / "manifests"
        manifest = read(folder, epochs(folder)[-1])
        marks = dict(zip(self._names, source_marks(manifest.sources), strict=True))
        results, self._results = pa.concat_tables(self._results), [self._schema.empty_table()]
        self.seen.append(Epoch(self._held.count(manifest), event.seconds, cpu_seconds, marks, results))
        self._cpu = time.process_time()


def same_epochs(trials: Sequence[Trial]) -> bool:
    """Whether trials read the same in the same epochs."""
    marks = [[epoch.marks for epoch in trial.epochs] for trial in trials]
    return all(one == marks[0] for one in marks)
