"""A sink that writes Parquet or Arrow files into a folder. Its readers never see a row twice or a partial file.

Tasks write under `_penstock/` inside the folder (readers skip names that begin with an underscore); publishing renames
a file into the folder, which is atomic. Readers can remove published files at any time, also while no query is running.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from penstock.arrow import Compression, ResultFormat
from penstock.connectors.sinks.sink import read_record
from penstock.errors import ConfigError, SinkError, did_you_mean
from penstock.paths import local_path
from penstock.state.model import Staged
from penstock.storage.durable import epoch_of_name, read_plain, sync_folder, writing
from penstock.storage.faults import FaultPoint, reach
from penstock.storage.run_files import write_all

_MOST_NOTES = 1 << 26  # bytes
COMPRESSIONS: tuple[str, ...] = get_args(Compression)
SINK_FORMATS: tuple[str, ...] = get_args(ResultFormat)


@dataclass(frozen=True)
class FilesSink:
    """A folder of Parquet or Arrow IPC files.

    An empty `path` means a folder inside the checkpoint, named after the output. `format` is `parquet` or `arrow`,
    which is larger and takes half the time to write. `compression` applies to Parquet: `lz4`, `snappy`, `zstd` or
    `none`.
    """

    path: str = ""
    kind: str = "files"
    format: ResultFormat = "parquet"
    compression: Compression = "lz4"

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", local_path(self.path, "a files sink"))
        _require_known("compression", self.compression, COMPRESSIONS)
        _require_known("format", self.format, SINK_FORMATS)

    @property
    def extension(self) -> ResultFormat:
        return self.format

    def identity(self) -> dict[str, Any]:
        """Return path and format. `compression` can change between runs; the format cannot, because readers may select
        by name."""
        return {"path": self.path, **({} if self.format == "parquet" else {"format": self.format})}

    def folder(self, checkpoint: Path, output: str) -> Path:
        """Return the folder of the published files, absolute."""
        if not self.path:
            return checkpoint / output
        path = Path(self.path).expanduser()
        return Path(os.path.realpath(path)) if ".." in path.parts else path.absolute()

    def files(self, folder: Path) -> list[Path]:
        """Return the published files in a folder, in order of epochs."""
        return sorted(folder.glob(f"*.{self.extension}"))

    def staging(self, checkpoint: Path, output: str) -> Path:
        return self.folder(checkpoint, output) / "_penstock"

    def check(self, checkpoint: Path, output: str, query_id: str | None) -> None:
        """Refuse a folder with files of another query or of unknown origin."""
        folder, record = self.folder(checkpoint, output), read_record(self.staging(checkpoint, output))
        if record is None and any(path.suffix[1:] in SINK_FORMATS for path in folder.glob("*")):
            raise _occupied(folder, "it holds Parquet or Arrow files that no known query wrote")
        if record is not None and record.query_id != query_id:
            raise _occupied(folder, f"it belongs to query {record.query_id}, and this is {query_id or 'a new one'}")

    def prepare(self, checkpoint: Path, output: str) -> None:
        staging = self.staging(checkpoint, output)
        try:
            with writing(staging):
                staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            folder = self.folder(checkpoint, output)
            raise SinkError(f"cannot write to {folder}", detail=str(error), hint="choose a writable folder") from error

    def newest(self, checkpoint: Path, output: str) -> int:
        """Return the newest epoch among the published files, 0 if there are none."""
        names = [path.name for path in self.files(self.folder(checkpoint, output))]
        return max((epoch for name in names if (epoch := epoch_of_name(name)) is not None), default=0)

    def is_published(self, checkpoint: Path, output: str, file: Staged) -> bool:
        """Return whether the file is in the folder, or was and a reader removed it: its name is noted before the
        rename."""
        seen = (self.folder(checkpoint, output) / file.name).exists()
        return seen or file.name in _noted(self.staging(checkpoint, output), epoch_of_name(file.name) or 0)

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        """Rename the staged files into the folder. The name of each file is noted first, so that a restart knows it."""
        folder, staging = self.folder(checkpoint, output), self.staging(checkpoint, output)
        path = _notes(staging, epoch)
        with open(path, "ab", buffering=0) as notes:
            for file in staged:
                line = f"\n{file.name}\n".encode()  # a full disk can cut off the previous line
                with writing(path, len(line)):
                    write_all(notes.fileno(), memoryview(line))
                reach(FaultPoint.PUBLISH_NOTED)
                with writing(folder / file.name):  # so that an error names the target
                    os.rename(staging / file.name, folder / file.name)
                reach(FaultPoint.PUBLISHED_ONE)
        sync_folder(folder)


def published_by(staging: Path, query_id: str) -> list[Path] | None:
    """Return the files that a query has published in the parent of `staging`; None if the folder belongs to another
    query."""
    record = read_record(staging)
    if record is None or record.query_id != query_id:
        return None
    files = (path for kind in SINK_FORMATS for path in staging.parent.glob(f"*.{kind}"))
    return sorted(path for path in files if epoch_of_name(path.name) is not None)


def _notes(staging: Path, epoch: int) -> Path:
    """Return the path of the file with the names that an epoch publishes, read after a crash.

    It is named like the files of the epoch and garbage-collected with them.
    """
    return staging / f"e{epoch:012d}-publishing"


def _noted(staging: Path, epoch: int) -> set[str]:
    """Return the names that an epoch has published or was about to; empty if there is no such file."""
    try:
        return set(read_plain(_notes(staging, epoch), _MOST_NOTES).decode(errors="replace").splitlines())
    except OSError:
        return set()


def _occupied(folder: Path, detail: str) -> SinkError:
    """Return the error for a folder that holds other results."""
    return SinkError(
        f"{folder} already holds other results",
        detail=detail,
        hint="choose another folder, or remove this one; to continue that query, use its checkpoint",
    )


def _require_known(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(
            f"unknown {option} `{value}` of a files sink",
            detail=f"there are {', '.join(known)}",
            hint=did_you_mean(value, known),
        )
