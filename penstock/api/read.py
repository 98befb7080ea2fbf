"""Create streams: `ps.read.files(...)`, `ps.read.table(...)`, `ps.read.batches(...)`, `ps.read.calls(...)`,
`ps.read.joinable(...)`.

`progress` is how rows tell how far event time has advanced (`ordered()`, `slack("2s")`, `punctuated(...)`).
`idle="10s"`: once a stream, or a substream of it, has had no rows for that long, others no longer wait for it.
`idle_advances=True`: while a stream is idle, its mark advances with system time.
`allowed_lateness="10s"`: punctuation is held back by that much more than `progress` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack, cast

import pyarrow as pa

from penstock.api.connectors import sources
from penstock.api.keywords import argument_error, checked_keywords, user_line
from penstock.api.lengths import Length, real_length
from penstock.api.progress import RuleSpec, idle_span, ordered, rule_over
from penstock.api.streams import Stream
from penstock.arrow import type_in
from penstock.connectors.files.source import FilesConnector, Missing, SourceFormat, Substreams
from penstock.connectors.generator.calls import CallsConnector
from penstock.connectors.generator.joinable import JoinableConnector
from penstock.connectors.memory import MemoryConnector
from penstock.connectors.source import SourceConnector
from penstock.errors import QueryError
from penstock.option_text import point_in_time
from penstock.plan.logical import Source
from penstock.progress.allowed import allowing
from penstock.progress.mark import Slack
from penstock.type_names import arrow_type, sql_type
from penstock.types import is_time_type, normalise, require_column
from penstock.units import size

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame

Rows: TypeAlias = "pa.Table | pd.DataFrame | Sequence[dict[str, Any]]"


class FilesOptions(TypedDict, total=False):
    """The options of `ps.read.files` beside its arguments (`FilesConnector`)."""

    format: SourceFormat | None
    follow: bool
    split_rows: int | None
    delimiter: str
    header: bool
    substreams: Substreams
    missing: Missing


class BatchesOptions(TypedDict, total=False):
    """The options of `ps.read.batches` beside its arguments (`MemoryConnector`)."""

    splits_per_batch: int
    one_batch_per_offer: bool
    substreams: tuple[str, ...]
    finishing: bool


class _PlainCallsOptions(TypedDict, total=False):
    """The options of `ps.read.calls` that the connector takes as they are."""

    rows: int | None
    rate: float
    realtime: bool
    keys: int
    districts: int
    skew: str
    seed: int
    split_rows: int


class CallsOptions(_PlainCallsOptions, total=False):
    """The options of `ps.read.calls` beside its arguments (`CallsConnector`)."""

    disorder: Length
    start: str | int | datetime | None


class _PlainJoinableOptions(TypedDict, total=False):
    """The options of `ps.read.joinable` that the connector takes as they are."""

    rows: int | None
    rate: float
    realtime: bool
    tuple_range: int
    partitions: int
    skew: float
    seed: int
    split_rows: int | None


class JoinableOptions(_PlainJoinableOptions, total=False):
    """The options of `ps.read.joinable` beside its arguments (`JoinableConnector`)."""

    ratios: int | Sequence[int]
    alternate: Length | Sequence[Length]
    payload: int | str
    disorder: Length
    start: str | int | datetime | None


@checked_keywords("ps.read.files", [field.name for field in fields(FilesConnector)])
def files(
    path: str,
    *,
    time: str,
    progress: RuleSpec | None = None,
    schema: dict[str, str] | None = None,
    name: str | None = None,
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
    **options: Unpack[FilesOptions],
) -> Stream:
    """Read files of a folder or a glob pattern: Parquet, Arrow IPC, CSV or JSON lines. `follow=True` keeps watching for
    new files. `substreams="files"` tracks the progress of each file separately. `schema` gives SQL types by column
    name; without it the schema of the first file is used. `missing="null"` reads a column that a file lacks as null;
    otherwise that is an error. CSV and JSON files may be compressed (`.gz`, `.zst`)."""
    progressing = Progressing(time, progress, idle, idle_advances, allowed_lateness)
    return _stream(FilesConnector(str(path), **options), name or "files", progressing, schema)


@checked_keywords("ps.read.table")
def table(
    rows: Rows,
    *,
    time: str,
    progress: RuleSpec | None = None,
    name: str = "table",
    allowed_lateness: Length | None = None,
) -> Stream:
    """Read a table in memory: Arrow, pandas, or a list of dicts."""
    return batches([rows], time=time, progress=progress, name=name, allowed_lateness=allowed_lateness)


@checked_keywords("ps.read.batches", [field.name for field in fields(MemoryConnector)])
def batches(
    parts: Iterable[Rows],
    *,
    time: str,
    progress: RuleSpec | None = None,
    name: str = "batches",
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
    **options: Unpack[BatchesOptions],
) -> Stream:
    """Read tables in memory, one per epoch: for tests, and to try out orders of arrival."""
    given: BatchesOptions = {"one_batch_per_offer": True, **options}
    connector = MemoryConnector(tuple(_as_table(part) for part in parts), **given)
    return _stream(connector, name, Progressing(time, progress, idle, idle_advances, allowed_lateness))


@checked_keywords("ps.read.calls", [field.name for field in fields(CallsConnector)])
def calls(
    *,
    progress: RuleSpec | None = None,
    name: str = "calls",
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
    **options: Unpack[CallsOptions],
) -> Stream:
    """Generate call records. The default progress is a slack as large as their `disorder`. Their times begin at
    `start`, as in "2024-01-31 12:00:00" (UTC); the default is when they are first read."""
    begin, disorder = options.pop("start", None), options.pop("disorder", "0s")
    connector = CallsConnector(
        start=None if begin is None else point_in_time(str(begin)),
        disorder=real_length(disorder, "the disorder of calls"),
        **cast(_PlainCallsOptions, options),
    )
    rule = progress or Slack(connector.disorder)
    return _stream(connector, name, Progressing("ts", rule, idle, idle_advances, allowed_lateness))


@checked_keywords("ps.read.joinable", [field.name for field in fields(JoinableConnector)])
def joinable(
    stream: int = 0,
    *,
    progress: RuleSpec | None = None,
    name: str | None = None,
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
    **options: Unpack[JoinableOptions],
) -> Stream:
    """Generate one of several streams that join with each other on `key`, with a known number of results: stream 0, 1,
    2 and so on, which are otherwise read with equal options. `ratios=[4, 2, 1]` gives a join ratio to each third of
    the partitions, `alternate=["5m", "10m"]` are the turns of a `skew`. Progress and times are as for `calls`."""
    connector = JoinableConnector(stream, **_joinable_options(options))
    rule = progress or Slack(connector.disorder)
    given = Progressing("ts", rule, idle, idle_advances, allowed_lateness)
    return _stream(connector, name or f"joinable_{stream}", given)


@checked_keywords("ps.read.spark")
def spark(
    frame: DataFrame,
    *,
    time: str,
    progress: RuleSpec | None = None,
    name: str = "spark",
    trigger: dict[str, Any] | None = None,
    bounded: bool = False,
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
) -> Stream:
    """Read a streaming DataFrame of Spark. `trigger` is that of Structured Streaming (`{"processingTime": "1 second"}`,
    `{"availableNow": True}`). With `bounded`, the stream ends when its streaming query terminates by itself."""
    from penstock.spark.source.adapter import SparkConnector  # imported late: reading files does not need Spark

    connector = SparkConnector(frame, trigger or {"processingTime": "1 second"}, bounded, name)
    return _stream(connector, name, Progressing(time, progress, idle, idle_advances, allowed_lateness))


def source(
    connector: SourceConnector | str,
    *,
    time: str,
    progress: RuleSpec | None = None,
    schema: dict[str, str] | None = None,
    name: str = "source",
    idle: Length | None = None,
    idle_advances: bool = False,
    allowed_lateness: Length | None = None,
    **options: Any,
) -> Stream:
    """Read from any connector, or from one that is registered under a name, with its options."""
    if isinstance(connector, str):
        connector = sources.build(connector, options)
    elif options:
        raise argument_error(
            "ps.read.source takes options only with the name of a connector", "give them to the connector"
        )
    return _stream(connector, name, Progressing(time, progress, idle, idle_advances, allowed_lateness), schema)


def _joinable_options(options: JoinableOptions) -> dict[str, Any]:
    """Return the options of a joinable stream as the connector takes them."""
    read: dict[str, Any] = dict(options)
    read["ratios"] = _one_or_more(read.get("ratios", 1))
    if "alternate" in read:
        read["alternate"] = tuple(real_length(one, "a turn of `alternate`") for one in _one_or_more(read["alternate"]))
    if read.get("start") is not None:
        read["start"] = point_in_time(str(read["start"]))
    disorder = real_length(read.get("disorder", "0s"), "the disorder of joinable rows")
    return read | {"disorder": disorder, "payload": size(read.get("payload", 32))}


def _one_or_more(given: object) -> tuple[Any, ...]:
    """Return a list or a tuple as a tuple, and anything else as the only part of one."""
    return tuple(given) if isinstance(given, list | tuple) else (given,)


@dataclass(frozen=True)
class Progressing:
    """The arguments that every source has about its progress, as users write them."""

    time: str
    progress: RuleSpec | None
    idle: Length | None
    idle_advances: bool
    allowed_lateness: Length | None


def _stream(connector: SourceConnector, name: str, given: Progressing, schema: dict[str, str] | None = None) -> Stream:
    """Create the stream of a source after checking its columns, its time and its progress rule."""
    _check_one_column(given.time, name)
    declared = connector.discover() if schema is None else pa.schema([(n, arrow_type(t)) for n, t in schema.items()])
    columns = normalise(declared)
    type_ = _time_type(columns, given.time, name)
    rule = rule_over(given.progress or ordered(), columns, given.time)
    rule = allowing(rule, given.allowed_lateness, pa.types.is_timestamp(type_))
    return Stream(Source(name, columns, given.time, rule, connector, idle_span(given.idle), given.idle_advances))


def _check_one_column(time: object, name: str) -> None:
    """Check that the time of a source is one column name."""
    if not isinstance(time, str):
        raise QueryError(
            f"the time of source `{name}` is one column, not {time!r}",
            detail=user_line(),
            hint='name only the column by which the stream progresses, as in time="ts"',
        )


def _time_type(columns: pa.Schema, time: str, name: str) -> pa.DataType:
    """Return the type of the time column; it must be TIMESTAMP or BIGINT."""
    field = require_column(columns, time, f"source `{name}`")
    if not is_time_type(field.type):
        raise QueryError(
            f"`{time}` cannot be the time of source `{name}`",
            detail=f"it is {sql_type(field.type)}",
            hint="the time of a stream is a TIMESTAMP or a BIGINT column",
        )
    return type_in(columns, time)


def _as_table(rows: Rows) -> pa.Table:
    """Convert rows to an Arrow table."""
    if isinstance(rows, pa.Table):
        return rows
    if hasattr(rows, "iloc"):  # a data frame; importing pandas to check the type would take half a second
        return pa.Table.from_pandas(rows, preserve_index=False)
    return pa.Table.from_pylist(list(rows))
