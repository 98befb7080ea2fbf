"""The protocol of sources.

Once per epoch the driver asks a `Reader` for an offer: splits, and the progress that holds once they are read. A split
is sent to a task (pickled by Spark, never written to a checkpoint), which reads it as Arrow. Reading the same split
again must give the same rows in the same order, because epochs are retried.

What a source can do beyond that is declared by a base class: `SizedSplit`, `SubstreamReader`, `AcknowledgingReader`,
`ListingConnector`, `AttachedConnector`. Methods of these names alone mean nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from penstock.arrow import schema_of
from penstock.plan.logical import Connector

BAD_ROWS_SCHEMA = schema_of({"file": pa.string(), "line": pa.int64(), "reason": pa.string(), "text": pa.string()})


@dataclass(frozen=True)
class ReadResult:
    """Some rows of a split, and the malformed rows among them (None if there are none).

    `rows` has the requested columns with the types of the source's schema. `bad` has BAD_ROWS_SCHEMA: `line` counts
    from 1, lines in a text file and rows in a binary one; it is null for a whole file.
    """

    rows: pa.Table
    bad: pa.Table | None = None


class Split(Protocol):
    """A part of a source that one task reads in one epoch. Picklable and small (except for in-memory rows)."""

    @property
    def substream(self) -> str: ...

    @property
    def rows(self) -> int:
        """Return the number of rows; an estimate if the format does not say."""
        ...

    @property
    def where(self) -> str:
        """Return the file and the range, for messages."""
        ...

    def read(self, columns: tuple[str, ...]) -> Iterator[ReadResult]:
        """Yield the rows, in order, as a few large tables. Raises SourceError for unreadable input."""
        ...


class SizedSplit:
    """Base of splits that know how much memory their rows take. `size` may be a field of a dataclass or a property."""

    if TYPE_CHECKING:  # a property here would be taken for the default of a field

        @property
        def size(self) -> int:
            """Return about how many bytes the rows take in memory, with all of their columns; 0 if it is not known."""
            ...


@dataclass(frozen=True)
class Offer:
    """The splits that a source offers for an epoch.

    `progress` is plain JSON; the next call of `Reader.offer` gets it, also after a restart. `ended`: no rows follow
    these splits. `waiting`: an estimate of the available rows beyond these splits. `finished`: the substreams that end
    with these splits; their names are never used again. No substream is called "".
    """

    splits: tuple[Split, ...]
    progress: dict[str, Any]
    ended: bool
    waiting: int = 0
    finished: tuple[str, ...] = ()


class Reader(Protocol):
    """The driver's side of a source."""

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """Return the next splits after `progress` (None: from the start), about `max_rows` rows in total.

        At least one split of every substream that has rows is among them: a substream without one has no rows and can
        become idle. The result depends on `progress` and the source only; the reader keeps no state that a crash would
        lose.
        """
        ...


class SubstreamReader(ABC):
    """Base of readers that can hold substreams back, so that none gets too far ahead of the others."""

    @abstractmethod
    def offer_at_most(self, most: Mapping[str, int], progress: dict[str, Any] | None, max_rows: int) -> Offer:
        """Return an offer as `offer` does, but with about `most[s]` rows of each substream s in `most`, none if that is
        0."""


class AcknowledgingReader(ABC):
    """Base of readers that are notified of committed progress, because their source waits for the acknowledgement."""

    @abstractmethod
    def committed(self, progress: dict[str, Any]) -> None:
        """Acknowledge everything up to `progress`, which the newest checkpoint has."""


class SourceConnector(Connector, Protocol):
    """A connector that can be read."""

    @property
    def bounded(self) -> bool:
        """Return whether the source has a last row."""
        ...

    def discover(self) -> pa.Schema:
        """Return the normalised schema of the data, for sources declared without one."""
        ...

    def open(self, schema: pa.Schema, time: str) -> Reader:
        """Return a reader of rows with this schema, which is normalised, declared or discovered."""
        ...


class ListingConnector(ABC):
    """Base of sources that list files in folders and read them."""

    @abstractmethod
    def would_list(self, path: str) -> bool:
        """Return whether the source would list a file with this path, in which links are resolved."""


class AttachedConnector(ABC):
    """Base of sources that an external system drives: attached when a run begins, detached when it ends."""

    @abstractmethod
    def attach(self, checkpoint: Path) -> None:
        """Connect to the system before the first epoch. `checkpoint` is the folder of the run."""

    @abstractmethod
    def detach(self) -> None:
        """Disconnect, whether or not the run has failed."""
