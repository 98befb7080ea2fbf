"""The outputs of a query, "results", "late" and "bad": where tasks stage their rows, and their publishing.

The late rows of several sources have different columns: each source then has a late output of its own, "late/name".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import Manifest
from penstock.checkpoint.store import Checkpoint
from penstock.config import Settings
from penstock.engine.job import Output
from penstock.errors import CheckpointError
from penstock.plan.naming import unique_name
from penstock.plan.subqueries import Query
from penstock.sinks.base import SinkConnector
from penstock.sinks.files import FilesSink

RESULTS, LATE, BAD = "results", "late", "bad"


class Outputs:
    """Invariant: late and bad rows go to folders of files, whatever the results go to."""

    def __init__(self, query: Query, settings: Settings, checkpoint: Checkpoint) -> None:
        self._root = checkpoint.root
        results: SinkConnector = query.sink.connector  # type: ignore[assignment]
        self.late = late_outputs([source.name for source in query.sources])
        self._late = FilesSink(settings.late)
        self._diverted = {BAD: FilesSink(settings.bad), **{name: self._of_source(name) for name in self.late}}
        self._sinks: dict[str, SinkConnector] = {RESULTS: results, **self._diverted}

    def _of_source(self, output: str) -> FilesSink:
        """A folder inside the one for late rows, where each source has its own."""
        path = Path(self._late.path) / output.removeprefix(f"{LATE}/") if "/" in output else Path(self._late.path)
        return FilesSink(str(path)) if self._late.path else self._late

    def diverted_folder(self, output: str) -> Path:
        """Where the rows of "late" or "bad" are published."""
        return self._diverted.get(output, self._late).folder(self._root, output)

    def staging(self) -> dict[str, Path]:
        return {output: sink.staging(self._root, output) for output, sink in self._sinks.items()}

    def places(self) -> dict[str, Output]:
        """What tasks need to know."""
        return {
            output: Output(folder, self._sinks[output].extension, self._sinks[output].compression)
            for output, folder in self.staging().items()
        }

    def folders(self) -> dict[str, str]:
        """What the manifest remembers, to notice when an output has moved."""
        return {output: str(folder) for output, folder in self.staging().items()}

    def check(self) -> None:
        """Before a new checkpoint is begun: a refusal must leave no trace of it."""
        for output, sink in self._sinks.items():
            sink.check(self._root, output)

    def prepare(self, manifest: Manifest) -> None:
        for output, sink in self._sinks.items():
            self._refuse_moved(output, manifest)
            sink.prepare(self._root, output, manifest.query_id, manifest.epoch)

    def publish(self, manifest: Manifest) -> None:
        for output, sink in self._sinks.items():
            staged = [file for file in manifest.staged if file.output == output]
            sink.publish(self._root, output, manifest.epoch, staged)
        reach(FaultPoint.PUBLISHED)

    def _refuse_moved(self, output: str, manifest: Manifest) -> None:
        """Results in two places would be half an answer each, and rows that are staged elsewhere would stay there."""
        before, now = Path(manifest.folders[output]), self.staging()[output]
        if before == now or not before.exists():
            return
        waiting = [f.name for f in manifest.staged if f.output == output and (before / f.name).exists()]
        if output == RESULTS or waiting:
            raise CheckpointError(
                f"the {output} rows of this query go to another folder",
                detail=f"so far it was {before.parent}, and now it is {now.parent}",
                hint="start it in the working folder it was started in before, with the same paths",
            )


def late_outputs(sources: Sequence[str]) -> tuple[str, ...]:
    """What the late outputs of some sources are called: all differently, and each a plain path."""
    if len(sources) == 1:
        return (LATE,)
    plain = [name if re.fullmatch(r"[\w-]+", name) else "source" for name in sources]
    names: list[str] = []
    for name in plain:
        names.append(f"{LATE}/{unique_name(name, [n.removeprefix(f'{LATE}/') for n in names])}")
    return tuple(names)
