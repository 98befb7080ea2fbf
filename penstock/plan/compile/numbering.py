"""Streams whose rows keep the numbers they got where they were read."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.tree import Column, Named
from penstock.plan.compile.flow import Flow, Stream
from penstock.plan.program import ROW_NUMBER, Compute, Divide, Keep, Step


def numbered(stream: Stream) -> Stream:
    """The stream with ROW_NUMBER as a further column: the place of a row in its split, until a site knows better."""
    if len(stream.flows) > 1 or not stream.flows[0].is_input:
        raise QueryError(
            "a window of rows needs the rows of one source",
            detail="behind a join, a union or an aggregate the order of rows depends on how the query is run",
            hint="use a window of time, or put the window of rows directly over the source",
        )
    schema = stream.schema.append(pa.field(ROW_NUMBER, pa.int64()))
    return Stream((_carrying(stream.flows[0]),), schema)


def _carrying(flow: Flow) -> Flow:
    return replace(flow, steps=tuple(map(_with_number, flow.steps)))


def _with_number(step: Step) -> Step:
    match step:
        case Keep() | Divide():
            return step
        case Compute(columns):
            return Compute((*columns, Named(ROW_NUMBER, Column(ROW_NUMBER))))
        case _:
            raise QueryError(
                "a window of rows cannot stand behind a function over batches or an assignment of windows",
                detail="the numbers of the rows are lost there",
                hint="put the window of rows directly over the source",
            )
