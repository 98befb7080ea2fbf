"""The state of a query as the driver keeps it in memory: what an epoch commits, and what the next one begins from.

How it is written is no concern of these classes: `checkpoint.format` translates them, so a field here may get another
name and no file changes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from penstock.progress.mark import BEGIN, Mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import HashRange
from penstock.state.runs import Slice


@dataclass(frozen=True)
class RangeMark:
    """The marks of a range of hashes, one per track: up to them all rows are processed, windows closed and state
    cleaned up."""

    range: HashRange
    marks: tuple[Mark, ...]


@dataclass(frozen=True)
class SiteState:
    """The state of a site: `slices` of state, `pending` state rows that wait to be processed, and rows that an ordered
    merger holds back, which are those of `held` with a time at or above `released`. Work that has progressed equally
    far starts at the hash `turn`, and wraps around; results do not depend on it.

    Invariant: the ranges of `marks` are sorted, do not overlap, and cover the site's groups. Neighbours with equal
    marks are one range, also if hashes of other sites lie between them.
    """

    slices: tuple[Slice, ...]
    marks: tuple[RangeMark, ...]
    pending: tuple[Slice, ...] = ()
    held: tuple[Slice, ...] = ()
    released: Mark = BEGIN
    turn: int = 0

    def all_slices(self) -> tuple[Slice, ...]:
        """Return the slices of state, of pending rows and of held rows."""
        return (*self.slices, *self.pending, *self.held)

    def needed_slices(self) -> tuple[Slice, ...]:
        """Return all slices in the order in which a site needs them: first the held rows, without which nothing passes
        an ordered merger, then the pending rows, then state."""
        return (*self.held, *self.pending, *self.slices)


@dataclass(frozen=True)
class SubqueryState:
    """The directory of a subquery and the state of its sites. Invariant: `sites` has one entry per site of the
    directory."""

    directory: Directory
    sites: tuple[SiteState, ...]


@dataclass(frozen=True)
class SourceState:
    """How far a source is read, and the punctuation of its substreams. `progress` is the source's own plain JSON,
    `floor` the punctuation that the stream already had, `rows` the number of its rows that were numbered."""

    progress: dict[str, Any] | None
    marks: dict[str, Mark]
    ended: bool
    floor: Mark = BEGIN
    rows: int = 0


@dataclass(frozen=True)
class Staged:
    """A file of rows that is or was to be published. `output` is "results", "late" or "bad". `size` and `checksum` are
    those of the bytes that were written."""

    output: str
    name: str
    rows: int
    size: int
    checksum: str


@dataclass(frozen=True)
class Totals:
    """Row counts since the start of the query."""

    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    bad_rows: int = 0

    def plus(self, other: Totals) -> Totals:
        """Return the sums of two totals."""
        return Totals(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.late_rows + other.late_rows,
            self.bad_rows + other.bad_rows,
        )


@dataclass(frozen=True)
class Manifest:
    """The committed state of a query after one epoch."""

    query_id: str
    fingerprint: str
    epoch: int
    sources: tuple[SourceState, ...]
    subqueries: tuple[SubqueryState, ...]
    staged: tuple[Staged, ...]
    folders: dict[str, str]  # where each output is staged, on this machine
    totals: Totals
    finished: bool
    published: dict[str, int] = field(default_factory=dict)  # of each output the newest epoch with rows before this one
    asked_sites: int = 0  # the setting `sites` that the directories were made for; they are kept until it changes

    def run_names(self) -> set[str]:
        """Return the names of all runs that the state refers to."""
        return {piece.run.name for sub in self.subqueries for site in sub.sites for piece in site.all_slices()}

    def last_with_rows(self, output: str) -> int:
        """Return the newest epoch with rows for an output; 0 if there is none."""
        return self.epoch if any(file.output == output for file in self.staged) else self.published.get(output, 0)

    def next(self, **changes: Any) -> Manifest:
        """Return a manifest for the next epoch, in which all staged files of this one count as published. Requires that
        they are."""
        published = self.published | {file.output: self.epoch for file in self.staged}
        return replace(self, epoch=self.epoch + 1, published=published, **changes)
