"""The sources of a trial as a case writes them: declarations and rows. Each batch is an epoch."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Any

import pyarrow as pa

from penstock.connectors.memory import MemoryConnector
from penstock.expr.text import quoted, text
from penstock.expr.tree import Literal
from penstock.plan.logical import Source
from penstock.progress.mark import Slack
from penstock.testing.source_rows import connector_of
from penstock.type_names import sql_type
from tests.support.cases.table import aligned
from tests.support.trials.sql.words import NoSql, listed, span


def source_sql(source: Source) -> str:
    """Return the CREATE SOURCE statement of a source."""
    columns = [f"{quoted(field.name)} {sql_type(field.type)}" for field in source.schema]
    time, rule = quoted(source.time), source.progress
    is_timestamp = bool(pa.types.is_timestamp(source.schema.field(source.time).type))
    slack = f" - {span(rule.span, is_timestamp)}" if isinstance(rule, Slack) else ""
    declared = listed([*columns, f"WATERMARK FOR {time} AS {time}{slack}"])
    options = f"connector = 'case', input = {text(Literal(source.name))}"
    if rule.allowed:
        options += f", allowed_lateness = '{rule.allowed}{'us' if is_timestamp else ''}'"
    return f"CREATE SOURCE {quoted(source.name)} ({declared})\n  WITH ({options});"


def input_text(source: Source) -> str:
    """Return the rows of a source epoch by epoch, in the splits that the trial reads."""
    connector = connector_of(source)
    epochs = (line for n in range(len(connector.batches)) for line in (f"epoch {n + 1}", *_epoch(connector, n)))
    return "\n".join(epochs)


def _epoch(connector: MemoryConnector, n: int) -> Iterator[str]:
    rows, parts = connector.batches[n], connector.splits_per_batch
    if not rows.num_rows:
        yield "  nothing"
        return
    cells = [rows.column_names, *([_cell(v) for v in row.values()] for row in rows.to_pylist())]
    header, *lines = (f"  {line}" for line in aligned(cells))
    yield header
    borders = sorted({rows.num_rows * k // parts for k in range(parts + 1)})
    for first, last in pairwise(borders):
        if first or connector.substreams:
            yield " ".join(["split", *connector.substreams[n : n + 1]])
        yield from lines[first:last]


def _cell(value: Any) -> str:
    """Format a value so that it is read back unchanged; the cells of results are rounded."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case datetime():
            return value.isoformat(sep=" ")
        case str() if len(f"{value}.".splitlines()) == 1:
            return "'" + value.replace("'", "''") + "'"
        case str() | bytes():
            raise NoSql("a row has a line break, or bytes")
    return str(value)
