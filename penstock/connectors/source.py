"""What a source is to the engine.

The driver holds a `Reader` and asks it, once per epoch, what it can offer; the answer names splits and the progress
that will be true once they are read. A split travels to a task (it is pickled by Spark, never written to a checkpoint)
and reads itself as Arrow. Reading the same split again must give the same rows in the same order: epochs are retried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from penstock.plan.logical import Connector

BAD_ROWS_SCHEMA = pa.schema(
    [("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("text", pa.string())]
)


@dataclass(frozen=True)
class ReadResult:
    """Some rows of a split, and the malformed rows found among them (None when there were none).

    `rows` has the requested columns with the types of the source's schema. `bad` has BAD_ROWS_SCHEMA: `line` is the
    line of a text file counted from 1, the row number counted from 1 of a binary one, or null for a whole file.
    """

    rows: pa.Table
    bad: pa.Table | None = None


class Split(Protocol):
    """A piece of a source that one task reads in one epoch. Picklable and small (in-memory rows excepted)."""

    @property
    def substream(self) -> str: ...

    @property
    def rows(self) -> int:
        """How many rows it holds; an estimate where the format does not say."""
        ...

    @property
    def where(self) -> str:
        """For messages: which file, which part of it."""
        ...

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        """The rows, in order, as a few large tables. Unreadable input raises SourceError."""
        ...


@dataclass(frozen=True)
class Offer:
    """What a source has for an epoch.

    `progress` is plain JSON; it is what `Reader.offer` is given next time, also after a restart. `ended`: nothing comes
    after these splits. `waiting`: rows known to be there beyond these splits (an estimate). `finished`: the substreams
    of which nothing comes after these splits; their names are never used again. No substream is called "".
    """

    splits: tuple[Split, ...]
    progress: dict[str, Any]
    ended: bool
    waiting: int = 0
    finished: tuple[str, ...] = ()


class Reader(Protocol):
    """The driver's side of a source."""

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """The next splits after `progress` (None: from the start), of about `max_rows` rows together, but at least one
        of every substream that has rows: what is not among them has none, and may come to count as idle. Pure in
        `progress`: nothing is remembered that would be lost by a crash."""
        ...


@runtime_checkable
class SubstreamReader(Reader, Protocol):
    """A reader that can hold substreams back, so that none leads the others too far."""

    def offer_at_most(self, most: Mapping[str, int], progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """The same as `offer`, but of each substream in `most` about so many rows, and none where that is 0."""
        ...


@runtime_checkable
class AcknowledgingReader(Protocol):
    """A reader that wants to know what is committed: its source waits for the answer."""

    def committed(self, progress: dict[str, Any]) -> None: ...


class SourceConnector(Connector, Protocol):
    """A connector that can be read."""

    @property
    def bounded(self) -> bool:
        """Whether its rows come to an end by themselves."""
        ...

    def discover(self) -> pa.Schema:
        """The normalised schema of the data, for sources declared without one."""
        ...

    def open(self, schema: pa.Schema, time: str) -> Reader:
        """A reader that gives rows of this (normalised, declared or discovered) schema."""
        ...


@runtime_checkable
class ListingConnector(Protocol):
    """A source that reads the files which it finds in folders."""

    def would_list(self, path: str) -> bool:
        """Whether it would find a file of this path, in which links are resolved, if there was one."""
        ...


@runtime_checkable
class AttachedConnector(Protocol):
    """A source that something else drives: it is attached when a run begins, and detached when it ends."""

    def attach(self, checkpoint: Path) -> None: ...

    def detach(self) -> None: ...
