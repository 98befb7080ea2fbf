"""Row numbers: streams whose rows keep the numbers that they got when they were read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.plan.compile.flow import CompiledStream, Flow
from penstock.plan.program import ROW_NUMBER, FilterStep, ProjectStep, SplitStep, Step


def numbered(stream: CompiledStream) -> CompiledStream:
    """Return the stream with ROW_NUMBER as an additional column: the position of a row in its split, which the site
    turns into the position in the stream. Raises QueryError unless all rows come from one source."""
    if len(stream.flows) > 1 or not stream.flows[0].is_input:
        raise QueryError(
            "a window of rows needs the rows of one source",
            detail="after a join, a union or an aggregate the order of rows depends on how the query is run",
            hint="use a window of time, or put the window of rows directly over the source",
        )
    schema = stream.schema.append(pa.field(ROW_NUMBER, pa.int64()))
    return CompiledStream((_carrying(stream.flows[0]),), schema)


def _carrying(flow: Flow) -> Flow:
    """Return the flow with steps that pass ROW_NUMBER on."""
    return replace(flow, steps=tuple(map(_with_number, flow.steps)))


def _with_number(step: Step) -> Step:
    """Return a step that passes ROW_NUMBER on; raises QueryError for a step that cannot."""
    match step:
        case FilterStep() | SplitStep():
            return step
        case ProjectStep(columns):
            return ProjectStep((*columns, Named(ROW_NUMBER, Column(ROW_NUMBER))))
        case _:
            raise QueryError(
                "a window of rows cannot follow a function over batches or an assignment of windows",
                detail="the numbers of the rows are lost there",
                hint="put the window of rows directly over the source",
            )
