"""The outputs of a query, "results", "late" and "bad": where tasks stage their rows, and how rows are published.

The late rows of several sources have different columns, so each source then has its own late output, "late/name".
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.sink import Record, SinkConnector, advance, claim, read_record, sweep, what_is_wrong
from penstock.engine.driver.published_record import BAD, LATE, RESULTS, Found, published_upto, rows_of
from penstock.engine.wire.job import Output
from penstock.errors import CorruptCheckpointError
from penstock.plan.compile.subqueries import Query
from penstock.settings import Settings
from penstock.state.model import Manifest, Staged
from penstock.storage.faults import FaultPoint, reach
from penstock.types import unique_name


class Outputs:
    """The sinks of a query, by output. Invariant: late and bad rows go to folders of files, whatever the sink of the
    results."""

    def __init__(self, query: Query, settings: Settings, checkpoint: Path) -> None:
        self._root = checkpoint
        results: SinkConnector = query.sink.connector  # type: ignore[assignment]
        self.late = late_outputs([source.name for source in query.sources])
        self._late = FilesSink(settings.late)
        self._diverted = {BAD: FilesSink(settings.bad), **{name: self._of_source(name) for name in self.late}}
        self._sinks: dict[str, SinkConnector] = {RESULTS: results, **self._diverted}
        self._accept_missing = settings.on_missing_results == "accept"
        self._upto: dict[str, int] = {}  # by output: the newest epoch that is published for sure

    def _of_source(self, output: str) -> FilesSink:
        """Return the sink of a late output: a subfolder of the folder for late rows if each source has its own
        output."""
        path = Path(self._late.path) / output.removeprefix(f"{LATE}/") if "/" in output else Path(self._late.path)
        return FilesSink(str(path)) if self._late.path else self._late

    def diverted_folder(self, output: str) -> Path:
        """Return the folder where the rows of "late" or "bad" are published."""
        return self._diverted.get(output, self._late).folder(self._root, output)

    def visible_folders(self) -> dict[str, Path]:
        """Return the folder of published rows of each output that has one."""
        files = {output: sink for output, sink in self._sinks.items() if isinstance(sink, FilesSink)}
        return {output: sink.folder(self._root, output) for output, sink in files.items()}

    def staging(self) -> dict[str, Path]:
        """Return the staging folder of each output."""
        return {output: self._staging(output) for output in self._sinks}

    def _staging(self, output: str) -> Path:
        return self._sinks[output].staging(self._root, output)

    def places(self) -> dict[str, Output]:
        """Return where and in which format tasks stage the rows of each output."""
        return {
            output: Output(folder, self._sinks[output].extension, self._sinks[output].compression)
            for output, folder in self.staging().items()
        }

    def folders(self) -> dict[str, str]:
        """Return the staging folders for the manifest, which detects by them that an output has moved."""
        return {output: str(folder) for output, folder in self.staging().items()}

    def left_staging(self, manifest: Manifest) -> list[Path]:
        """Return the staging folders of outputs in a manifest that are no longer used but still belong to the query:
        files that a dead run has staged there can be removed."""
        now = {os.path.realpath(folder) for folder in self.staging().values()}
        left = [Path(folder) for folder in manifest.folders.values() if os.path.realpath(folder) not in now]
        records = [(folder, read_record(folder)) for folder in left]
        return [folder for folder, record in records if record and record.query_id == manifest.query_id]

    def to_sync(self, before: Manifest, after: Manifest) -> set[Path]:
        """Return the staging folders whose directory entries an epoch relies on: those of its own files, and those
        whose records were renamed when the epoch before was published."""
        return {self._staging(file.output) for file in (*before.staged, *after.staged)}

    def check(self) -> None:
        """Check all sinks before a new checkpoint is created: a refusal must leave no trace of it."""
        for output, sink in self._sinks.items():
            sink.check(self._root, output, None)

    def prepare(self, manifest: Manifest) -> None:
        """Create the folders of all outputs, after all of them have been checked."""
        for output, sink in self._sinks.items():
            found = self._found(output, manifest)
            if found.has_record or not manifest.published.get(output):  # otherwise files may belong to this query
                sink.check(self._root, output, manifest.query_id)
            self._upto[output] = published_upto(found, manifest, self._accept_missing)
        for output, sink in self._sinks.items():
            sink.prepare(self._root, output)
            self._claim(output, manifest.query_id)

    def publish(self, manifest: Manifest) -> None:
        """Publish the staged files of the manifest. All files of the epoch are checked before the first one becomes
        visible."""
        waiting = {output: self._waiting(output, manifest) for output in self._sinks}
        for output, files in waiting.items():
            if self._upto[output] < manifest.last_with_rows(output):
                self._sinks[output].publish(self._root, output, manifest.epoch, files)
                advance(self._staging(output), self._upto[output], manifest.epoch)
                self._upto[output] = manifest.epoch
        reach(FaultPoint.PUBLISHED)

    def _found(self, output: str, manifest: Manifest) -> Found:
        """Return the records and the newest visible epoch of an output."""
        now, before = self._staging(output), Path(manifest.folders.get(output, ""))
        there = read_record(before) if os.path.realpath(before) != os.path.realpath(now) else None
        mine = there if there is not None and there.query_id == manifest.query_id else None
        seen = self._sinks[output].newest(self._root, output)
        return Found(output, now.parent, read_record(now), before.parent, mine, seen)

    def _claim(self, output: str, query_id: str) -> None:
        """Write the record of the query into the staging folder if it has none or an older one."""
        staging, upto = self._staging(output), self._upto[output]
        sweep(staging)
        found = read_record(staging)
        if found is not None:
            advance(staging, found.epoch, upto)
        elif not claim(staging, Record(query_id, upto)):
            self._sinks[output].check(self._root, output, query_id)  # another query was faster: the error names it

    def _waiting(self, output: str, manifest: Manifest) -> list[Staged]:
        """Return the staged files that are neither known to be published nor visible."""
        if self._upto[output] >= manifest.epoch:
            return []
        files = [file for file in manifest.staged if file.output == output]
        return [file for file in files if self._is_whole(output, manifest.epoch, file)]

    def _is_whole(self, output: str, epoch: int, file: Staged) -> bool:
        """Return whether a staged file is complete and still to be published; raise an error if it is damaged or
        missing."""
        path = self._staging(output) / file.name
        if not os.path.lexists(path):
            if self._sinks[output].is_published(self._root, output, file) or self._accept_missing:
                return False
            raise _unpublishable(path, epoch, file, "the file is missing, and was not published")
        if wrong := what_is_wrong(path, file):
            raise _unpublishable(path, epoch, file, wrong)
        return True


def _unpublishable(path: Path, epoch: int, file: Staged, detail: str) -> CorruptCheckpointError:
    return CorruptCheckpointError(
        f"{file.rows:,} {rows_of(file.output)} of epoch {epoch} cannot be published",
        detail=f"{path}: {detail}",
        hint="nothing more of this epoch is published; restore the file from a backup and start again; to go on "
        "without these rows, remove the file and start with the setting on_missing_results = 'accept'",
    )


def late_outputs(sources: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the late outputs of some sources: all different, and each a plain path."""
    if len(sources) == 1:
        return (LATE,)
    plain = [name if re.fullmatch(r"[\w-]+", name) else "source" for name in sources]
    names: list[str] = []
    for name in plain:
        names.append(f"{LATE}/{unique_name(name, [n.removeprefix(f'{LATE}/') for n in names])}")
    return tuple(names)
