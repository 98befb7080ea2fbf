"""Validity checks of a manifest as data: whatever its checksum says, it must be one that a driver could have written.

Numbers are in their ranges, counts are consistent, marks cover the hashes of their sites, and no row is stored twice.
What depends on the query, such as the number of its ports, is checked where the query is known.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise

from penstock.progress.mark import MAX_TIME, MIN_TIME, Mark
from penstock.settings import MOST_SITES
from penstock.state.hash_ranges import HASH_END, HashRange, remaining
from penstock.state.model import Manifest, SiteState, SourceState, Staged, SubqueryState
from penstock.state.runs import RunFile, Slice
from penstock.storage.run_files import block_length

_MOST = 2**63 - 1  # the largest count
_CHECKSUM = re.compile(r"[0-9a-f]{16}")


def contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield what is not valid in a manifest, one message each."""
    totals = manifest.totals
    for count in (totals.rows_in, totals.rows_out, totals.late_rows, totals.bad_rows, manifest.asked_sites):
        yield from _count(count, "a total")
    for source in manifest.sources:
        yield from _of_source(source)
    for subquery in manifest.subqueries:
        yield from _of_subquery(subquery)
    for file in manifest.staged:
        yield from _of_staged(file, manifest.folders)
    for output, epoch in manifest.published.items():
        if output not in manifest.folders or not 0 <= epoch <= manifest.epoch:
            yield f"`{output}` was published by epoch {epoch}, which is impossible"


def _of_staged(file: Staged, outputs: Collection[str]) -> Iterator[str]:
    yield from _count(file.rows, f"the number of rows of {file.name}")
    yield from _count(file.size, f"the size of {file.name}")
    if not _CHECKSUM.fullmatch(file.checksum):
        yield f"the checksum of {file.name} is not valid"
    if file.output not in outputs:
        yield f"{file.name} is staged for `{file.output}`, which is not an output"


def _of_source(source: SourceState) -> Iterator[str]:
    yield from _count(source.rows, "the number of rows of a source")
    yield from _marks([*source.marks.values(), source.floor])


def _of_subquery(state: SubqueryState) -> Iterator[str]:
    directory = state.directory
    if not 1 <= directory.sites <= MOST_SITES or len(state.sites) != directory.sites:
        yield f"it has the state of {len(state.sites)} sites, and a directory of {directory.sites}"
        return
    for number, site in enumerate(state.sites):
        yield from _of_site(site, directory.ranges_of(number))
    yield from _held_twice(state)


def _of_site(site: SiteState, home: Iterable[HashRange]) -> Iterator[str]:
    ranges = [part.range for part in site.marks]
    if wrong := [part for part in (*ranges, *(piece.range for piece in site.all_slices())) if not _is_range(part)]:
        yield f"{wrong[0].low} to {wrong[0].high} is not a range of hashes"
        return
    if any(before.high > behind.low for before, behind in pairwise(ranges)) or remaining(home, ranges):
        yield "the marks of a site do not cover its hashes, or some of them twice"
    if not 0 <= site.turn < HASH_END:
        yield f"{site.turn} is not a hash"
    yield from _marks([*(mark for part in site.marks for mark in part.marks), site.released])
    for run in {piece.run for piece in site.all_slices()}:
        yield from _of_run(run)


def _of_run(run: RunFile) -> Iterator[str]:
    yield from _count(run.port, f"the port of {run.name}")
    if not (1 <= run.rows <= run.size <= _MOST):
        yield f"{run.name} cannot have {run.rows} rows in {run.size} bytes"
    if not MIN_TIME <= run.min_time <= run.median_time <= run.max_time <= MAX_TIME:
        yield f"the times of {run.name} are not in order"
    blocks = -(-run.size // block_length(run.size)) if run.blocks else 0
    if not _CHECKSUM.fullmatch(run.checksum) or not re.fullmatch(rf"([0-9a-f]{{16}}){{{blocks}}}", run.blocks):
        yield f"the checksums of {run.name} are not valid"


def _held_twice(state: SubqueryState) -> Iterator[str]:
    """Yield messages for rows that are stored twice. Slices of a run must not overlap, not even across sites, except
    for spread hashes."""
    spread = [HashRange(cells.hash, cells.hash + 1) for cells in state.directory.spread]
    by_run: dict[str, list[Slice]] = defaultdict(list)
    for piece in (piece for site in state.sites for piece in site.all_slices()):
        by_run[piece.run.name].append(piece)
    for name, pieces in by_run.items():
        if len({piece.run for piece in pieces}) > 1:
            yield f"it has two descriptions of {name}"
        own = sorted(part for piece in pieces for part in remaining([piece.range], spread))
        if any(before.high > behind.low for before, behind in pairwise(own)):
            yield f"rows of {name} are stored twice"


def _marks(marks: Iterable[Mark]) -> Iterator[str]:
    for mark in marks:
        if not MIN_TIME <= mark.at <= MAX_TIME or (mark.ended and mark.at != MAX_TIME):
            yield f"{mark.at} is not a mark"


def _is_range(part: HashRange) -> bool:
    return 0 <= part.low < part.high <= HASH_END


def _count(number: int, what: str) -> Iterator[str]:
    if not 0 <= number <= _MOST:
        yield f"{what} cannot be {number}"
