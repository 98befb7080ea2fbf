"""A folder of Parquet or Arrow files. A reader of the folder never sees a row twice nor a file half written.

Tasks write under `_penstock/` inside the folder (readers skip names that begin with an underscore); publishing renames
a file into the folder, which is atomic and, since only a rename empties the staging folder, repeatable.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.checkpoint.durable import sync_folder, write_new
from penstock.checkpoint.faults import FaultPoint, reach
from penstock.checkpoint.manifest import Staged
from penstock.checkpoint.store import epoch_of_name
from penstock.errors import ConfigError, CorruptCheckpointError, SinkError, did_you_mean

_OWNER = "query_id"
COMPRESSIONS = ("lz4", "snappy", "zstd", "none")
FORMATS = ("parquet", "arrow")


@dataclass(frozen=True)
class FilesSink:
    """`path` empty: a folder inside the checkpoint, named after the output. `format` is `parquet` or `arrow` (Arrow IPC
    files: larger, and written in half the time). `compression` is `lz4`, `snappy`, `zstd` or `none`, and holds for
    Parquet."""

    path: str = ""
    kind: str = "files"
    format: str = "parquet"
    compression: str = "lz4"

    def __post_init__(self) -> None:
        _require_known("compression", self.compression, COMPRESSIONS)
        _require_known("format", self.format, FORMATS)

    @property
    def extension(self) -> str:
        return self.format

    def identity(self) -> dict[str, Any]:
        """Without `compression`, which may change between runs. The format may not: who reads the folder by a pattern
        would miss what comes in another."""
        return {"path": self.path, **({} if self.format == "parquet" else {"format": self.format})}

    def folder(self, checkpoint: Path, output: str) -> Path:
        return Path(self.path).expanduser().absolute() if self.path else checkpoint / output

    def files(self, folder: Path) -> list[Path]:
        """The published files in a folder, in the order of epochs."""
        return sorted(folder.glob(f"*.{self.extension}"))

    def staging(self, checkpoint: Path, output: str) -> Path:
        return self.folder(checkpoint, output) / "_penstock"

    def check(self, checkpoint: Path, output: str) -> None:
        _refuse_occupied(self.folder(checkpoint, output), self.staging(checkpoint, output) / _OWNER, None)

    def prepare(self, checkpoint: Path, output: str, query_id: str, committed: int) -> None:
        folder, staging = self.folder(checkpoint, output), self.staging(checkpoint, output)
        try:
            staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SinkError(f"cannot write to {folder}", detail=str(error), hint="choose a writable folder") from error
        _claim(folder, staging / _OWNER, query_id)
        _refuse_from_the_future(self.files(folder), folder, committed)

    def publish(self, checkpoint: Path, output: str, epoch: int, staged: Sequence[Staged]) -> None:
        folder, staging = self.folder(checkpoint, output), self.staging(checkpoint, output)
        for file in staged:
            if (staging / file.name).exists():
                os.rename(staging / file.name, folder / file.name)
                reach(FaultPoint.PUBLISHED_ONE)
        if staged:
            sync_folder(folder)


def published_by(staging: Path, query_id: str) -> list[Path] | None:
    """The files that a query has published in the folder around `staging`; None where the folder is not its own."""
    owner = staging / _OWNER
    if not owner.is_file() or owner.read_text().strip() != query_id:
        return None
    files = (path for kind in FORMATS for path in staging.parent.glob(f"*.{kind}"))
    return sorted(path for path in files if epoch_of_name(path.name) is not None)


def _claim(folder: Path, owner: Path, query_id: str) -> None:
    """Mark the folder as this query's."""
    if not _refuse_occupied(folder, owner, query_id):
        owner.unlink(missing_ok=True)  # left by a process that died before it had written its name
        write_new(owner, query_id.encode())


def _refuse_occupied(folder: Path, owner: Path, query_id: str | None) -> bool:
    """Results of two queries in one folder would be two answers in one. Gives whether the folder is claimed already;
    a query without an id yet has claimed nothing."""
    found = owner.read_text().strip() if owner.exists() else ""
    if not found and any(path.suffix[1:] in FORMATS for path in folder.glob("*")):
        raise _occupied(folder, "it holds Parquet or Arrow files that no known query wrote")
    if found and found != query_id:
        raise _occupied(folder, f"it belongs to query {found}, and this is {query_id or 'a new one'}")
    return bool(found)


def _occupied(folder: Path, detail: str) -> SinkError:
    return SinkError(
        f"{folder} already holds other results",
        detail=detail,
        hint="choose another folder, or remove this one; to go on with that query, use its checkpoint",
    )


def _require_known(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(
            f"unknown {option} `{value}` of a files sink",
            detail=f"there are {', '.join(known)}",
            hint=did_you_mean(value, known),
        )


def _refuse_from_the_future(files: Sequence[Path], folder: Path, committed: int) -> None:
    """A published epoch that the checkpoint does not know means that manifests were lost: going on would repeat it."""
    published = [e for p in files if (e := epoch_of_name(p.name)) is not None]
    if published and max(published) > committed:
        raise CorruptCheckpointError(
            "the newest manifests of the checkpoint are missing",
            detail=f"epoch {max(published)} is published in {folder}, but the checkpoint ends at epoch {committed}",
            hint="restore the manifests from a backup, or start again with a new checkpoint and a new folder",
        )
