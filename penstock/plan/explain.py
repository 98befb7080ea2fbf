"""The plan as people read it: sources, subqueries with their operators, the sink, from the bottom up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.expressions import Column, Named
from penstock.expressions_text import text
from penstock.operators.aggregate import WindowAggregate
from penstock.operators.window import Window
from penstock.plan.nodes import Source
from penstock.plan.subqueries import SINK, TIME_COLUMN, Compute, Input, Keep, Query, Step, Subquery
from penstock.progress.rules import Slack
from penstock.schema import sql_type

_UNITS = (("d", 86_400_000_000), ("h", 3_600_000_000), ("m", 60_000_000), ("s", 1_000_000), ("ms", 1_000), ("us", 1))


def explain(query: Query) -> str:
    lines: list[str] = []
    for source, part in zip(query.sources, query.program.inputs, strict=True):
        lines += _input_lines(source, part)
    for subquery in query.program.subqueries:
        lines += _subquery_lines(subquery)
    columns = ", ".join(f"{f.name} {sql_type(f.type)}" for f in query.program.result_schema)
    return "\n".join([*lines, f"sink {query.sink.connector.kind}: {columns}"])


def _input_lines(source: Source, part: Input) -> Iterator[str]:
    is_timestamp = pa.types.is_timestamp(source.schema.field(source.time).type)
    progress = f"slack {_span(source.progress.span, is_timestamp)}" if isinstance(source.progress, Slack) else "ordered"
    yield f"source {source.name} ({source.connector.kind}), time {source.time}, {progress}"
    yield f"  read {', '.join(part.columns)}"
    yield from _step_lines(part.steps)
    yield from _target_lines(part.target)


def _subquery_lines(subquery: Subquery) -> Iterator[str]:
    operator = subquery.operator
    yield f"subquery {subquery.number}: aggregate by {', '.join(operator.keys) or 'nothing'}, {_window(operator)}"
    for measure in operator.measures:
        yield f"  {measure.name} = {measure.function}({measure.shown})"
    yield from _step_lines(subquery.tail)
    yield from _target_lines(subquery.target)


def _window(operator: WindowAggregate) -> str:
    window: Window = operator.window
    is_timestamp = pa.types.is_timestamp(operator.input_schema.field(window.time).type)
    size, slide, pane = (_span(s, is_timestamp) for s in (window.size, window.slide, window.pane))
    kind = f"tumbling {size}" if window.size == window.slide else f"sliding {size} every {slide}, panes of {pane}"
    return kind + (f", offset {_span(window.offset, is_timestamp)}" if window.offset else "")


def _step_lines(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case Keep(predicate):
                yield f"  keep {text(predicate)}"
            case Compute(columns):
                yield f"  compute {', '.join(_computed(named) for named in columns)}"


def _computed(named: Named) -> str:
    shown = text(named.expression)
    if named.name == TIME_COLUMN:
        return f"time = {shown}"
    unnamed = named.name.startswith("#") or named.expression == Column(named.name)
    return shown if unnamed else f"{named.name} = {shown}"


def _target_lines(target: int) -> Iterator[str]:
    if target != SINK:
        yield "  pre-aggregate by key and pane"
        yield f"  exchange by key hash to subquery {target}"


def _span(value: int, is_timestamp: bool) -> str:
    if not is_timestamp:
        return str(value)
    for unit, factor in _UNITS:
        if value % factor == 0 and value >= factor:
            return f"{value // factor}{unit}"
    return f"{value}us"
