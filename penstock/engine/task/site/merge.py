"""Merge the blobs of all producers at a site, and derive the site's marks from their punctuation. The ordered merger
holds rows back and releases them in time order, up to the low-water mark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.engine.task.exchange.deliver import together
from penstock.engine.task.site.compacting import Compaction
from penstock.engine.task.site.storing import Storage, of_port
from penstock.engine.task.site.view import PartLimits, TableRows, cut
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import EpochJob, branch_name, producers_of
from penstock.operators.arrange import gathered, merged, times_of
from penstock.operators.protocol import Copying, KeepsTimesApart, Operator, ProbingOperator
from penstock.plan.program import Feed, Subquery
from penstock.progress.mark import BEGIN, END, MAX_TIME, Mark, Marks, advance, at, low_water_mark, stream_mark
from penstock.state.directory import Directory
from penstock.state.hash_ranges import EVERYTHING
from penstock.state.model import SiteState
from penstock.state.runs import Slice, outside, restrict


@dataclass(frozen=True)
class Arrived:
    """The blobs of an epoch, merged at a site. `rows[port]` are tables in the form in which rows are sent, each sorted;
    at most one table, unless the operator keeps times apart.

    Of a port with more rows than fit into memory, all rows are in the slices `written` instead, as state rows.

    `read` maps each branch of a producer to the attempt that was read, or to several, joined by a plus sign, if blobs
    of more than one attempt arrived; the driver does not commit such an epoch.
    """

    read: dict[str, str]
    rows: tuple[tuple[pa.Table, ...], ...]
    headers: tuple[Header, ...]
    written: tuple[Slice, ...] = ()


def merge(job: EpochJob, subquery: Subquery, site: int, blobs: Iterable[Blob], storage: Storage) -> Arrived:
    """Merge the blobs of a site into one set of tables per port; write the rows of a port that has too many."""
    # Sorted, so that the result does not depend on the order of arrival.
    ordered = sorted(blobs, key=lambda blob: (blob.header.producer, blob.header.branch))
    read: dict[str, str] = {}
    for blob in ordered:
        name, attempt = branch_name(blob.header.producer, blob.header.branch), blob.header.attempt
        read[name] = f"{read[name]}+{attempt}" if name in read else attempt
    headers = tuple(blob.header for blob in ordered)
    tables = _tables_by_port(job, subquery, ordered, headers)
    directory, written = job.directories[subquery.number], list[Slice]()
    for port, part in enumerate(tables):
        if _may_overflow(subquery) and sum(table.nbytes for table in part) > storage.budget.arrivals:
            written += _overflow(subquery, port, part, storage)
            tables[port] = []
    rows = tuple(_received(subquery, port, part, directory, site) for port, part in enumerate(tables))
    return Arrived(read, rows, headers, tuple(written))


def _may_overflow(subquery: Subquery) -> bool:
    """Return whether rows can be written before they are worked on. The ordered merger writes what it holds itself; a
    copying operator must see all rows."""
    return not subquery.ordered and not isinstance(subquery.operator, Copying)


def _overflow(subquery: Subquery, port: int, tables: Sequence[pa.Table], storage: Storage) -> list[Slice]:
    """Write the rows of a port as state rows, in pieces that need little memory."""
    sources = [TableRows(table) for table in tables if table.num_rows]
    written: list[Slice] = []
    for part in cut(EVERYTHING, sources, PartLimits(bytes=storage.budget.piece)):
        for batch in gathered((source.inside(part) for source in sources), storage.budget.piece, _bytes):
            for rows in state_rows(subquery, port, [together(subquery, port, batch)]):
                written += storage.write(port, rows)
    return written


def _bytes(rows: pa.Table) -> int:
    return int(rows.nbytes) if rows.num_rows else 0


def with_overflow(state: SiteState, operator: Operator, written: Sequence[Slice]) -> SiteState:
    """Return the state with rows that were written on arrival: pending rows of an operator that probes, and otherwise
    state at once."""
    if isinstance(operator, ProbingOperator):
        return replace(state, pending=(*state.pending, *written))
    parked = state.parked_ranges()
    return replace(
        state,
        slices=(*state.slices, *outside(written, parked)),
        active=(*state.active, *restrict(written, parked)),
    )


def _received(
    subquery: Subquery, port: int, tables: Sequence[pa.Table], directory: Directory, site: int
) -> tuple[pa.Table, ...]:
    """Return the tables of a port combined into one, unless the operator keeps times apart. A copying operator adds the
    copies of rows that the site's hashes need."""
    operator = subquery.operator
    if not tables or (isinstance(operator, KeepsTimesApart) and not subquery.takes_rows):
        return tuple(tables)
    rows = together(subquery, port, tables)
    return (operator.received(port, rows, directory.ranges_of(site)) if isinstance(operator, Copying) else rows,)


def _tables_by_port(
    job: EpochJob, subquery: Subquery, blobs: Iterable[Blob], headers: Sequence[Header]
) -> list[list[pa.Table]]:
    """Return the tables of the blobs by port, with row numbers counted over all splits if the subquery uses them."""
    first_numbers = _first_numbers(job, headers) if subquery.numbers else {}
    tables: list[list[pa.Table]] = [[] for _ in range(subquery.operator.ports)]
    for blob in blobs:
        if blob.rows is not None:
            rows = blob.rows
            if subquery.numbers is not None:
                assert blob.header.ordinal is not None, "only rows of splits are numbered"
                rows = _renumbered(rows, subquery.numbers, first_numbers[blob.header.ordinal])
            tables[blob.header.port].append(rows)
    return tables


def _first_numbers(job: EpochJob, headers: Iterable[Header]) -> dict[int, int]:
    """Return the number of the first row of each split: rows are numbered without gaps, in the order of the splits."""
    used = {header.ordinal: header.numbered for header in headers if header.ordinal is not None}
    following = [source.rows for source in job.sources]
    first: dict[int, int] = {}
    for ordinal in sorted(used):
        index = job.route_inputs[ordinal]
        first[ordinal] = following[index]
        following[index] += used[ordinal]
    return first


def _renumbered(rows: pa.Table, column: str, first: int) -> pa.Table:
    """Add `first` to the row numbers in a column."""
    place = rows.column_names.index(column)
    numbers = rows.column(place).to_numpy() + first
    return rows.set_column(place, rows.schema.field(place), pa.array(numbers))


def site_marks(job: EpochJob, subquery: Subquery, headers: Sequence[Header]) -> Marks:
    """Return, for each track, the mark below which no more rows can arrive at the site, given the punctuation of this
    epoch."""
    return subquery.track_marks((f.branch, _branch_marks(job, f, headers)) for f in job.program.feeds(subquery.number))


def _branch_marks(job: EpochJob, feed: Feed, headers: Iterable[Header]) -> Marks:
    """Return the marks that a branch gives to the tracks that it feeds."""
    producers = set(producers_of(job, feed))
    own_headers = [h for h in headers if h.producer in producers and h.branch == feed.branch_number]
    return (
        feed.branch.followed(_input_marks(job, feed.producer, own_headers))
        if feed.is_input
        else _least(feed, own_headers)
    )


def _input_marks(job: EpochJob, index: int, headers: Sequence[Header]) -> Marks:
    """Return the marks of an input: by time, and by row number (all rows numbered so far have arrived)."""
    known, rule = job.sources[index], job.program.inputs[index].progress
    seen = [h.seen for h in headers if h.seen is not None]
    by_time = stream_mark(advance(rule, known.marks, seen, known.finished), known.ended, known.floor)
    return (by_time, END if known.ended else at(known.rows + sum(h.numbered for h in headers)))


def _least(feed: Feed, headers: Sequence[Header]) -> Marks:
    """Return the least marks over the sites of the subquery that feeds this one; BEGIN if no site has sent any."""
    marks_of_headers = zip(*(h.marks for h in headers), strict=True)
    return tuple(map(low_water_mark, marks_of_headers)) if headers else (BEGIN,) * len(feed.branch.tracks)


def state_rows(subquery: Subquery, port: int, tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Return the tables of a port as state rows."""
    if not subquery.takes_rows:
        return list(tables)
    return [subquery.operator.prepare_arranged(port, rows) for rows in tables]


@dataclass(frozen=True)
class Held:
    """The rows that the ordered merger holds for a later epoch: the rows of the slices whose time is not below
    `released`."""

    slices: tuple[Slice, ...] = ()
    released: Mark = BEGIN


def release(
    storage: Storage, state: SiteState, arrived: Sequence[Sequence[pa.Table]], upto: Mark, may: Callable[[], bool]
) -> tuple[tuple[tuple[pa.Table, ...], ...], Held]:
    """Merge rows that have arrived with rows that are held.

    Return, for each port, at most one table with the rows below the low-water mark `upto`, in the form in which they
    were sent, and the rows that are still held. Held runs are compacted while `may` returns True.
    """
    through: list[tuple[pa.Table, ...]] = []
    held: list[Slice] = []
    for port, tables in enumerate(arrived):
        waiting = of_port(state.held, port)
        parts = [_between(storage.read(p), state.released, upto) for p in waiting if _reached(p, upto)]
        for fresh in tables:
            parts.append(_below(fresh, upto))
            waiting += storage.write(port, _not_below(fresh, upto))
        held += Compaction(storage, port, _merged, _bound(upto), 0, may).run(waiting)
        filled = [part for part in parts if part.num_rows]
        through.append((merged(filled, filled[0].schema),) if filled else ())
    return tuple(through), Held(tuple(held), upto)


def _merged(port: int, tables: Sequence[pa.Table]) -> pa.Table:
    return merged(tables, tables[0].schema)


def _bound(upto: Mark) -> int:
    return MAX_TIME if upto.ended else upto.at


def _reached(piece: Slice, upto: Mark) -> bool:
    return upto.ended or piece.run.min_time < upto.at


def _between(rows: pa.Table, after: Mark, upto: Mark) -> pa.Table:
    return _below(rows.filter(pa.array(times_of(rows) >= after.at)), upto)


def _below(rows: pa.Table, upto: Mark) -> pa.Table:
    """Return the rows below the mark. Rows that have just arrived need no lower bound: #time can differ from the time
    that the punctuation is about."""
    return rows if upto.ended else rows.filter(pa.array(times_of(rows) < upto.at))


def _not_below(rows: pa.Table, upto: Mark) -> pa.Table:
    return rows.slice(0, 0) if upto.ended else rows.filter(pa.array(times_of(rows) >= upto.at))
