"""What operators keep as state, and how long, as people read it: spans are of event time, up to the punctuation."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from penstock.operators.band_join.join import BandJoin
from penstock.operators.distinct import DistinctRows
from penstock.operators.equal_times import MomentsAggregate
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.session.session import SessionAggregate
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.operators.top import TopRows
from penstock.operators.window.aggregate import WindowAggregate
from penstock.plan.spans import span_text

_FOREVER = 1 << 62  # spans from here on have no bound


def kept_lines(operator: Operator) -> Iterator[str]:
    match operator:
        case WindowAggregate(window=window, input_schema=schema):
            yield f"keep a partial for each key and pane, at most {_span(window.size, schema, window.time)}"
        case SessionAggregate(window=window, input_schema=schema):
            yield f"keep fragments of sessions until {_span(window.gap, schema, window.time)} after their last row"
        case MomentsAggregate():
            yield "keep a partial for each group until its time has passed"
        case DistinctRows():
            yield "keep each different row until its time has passed"
        case TopRows(n=n, time=time):
            until = "the stream has ended" if time is None else f"{time} has passed"
            yield f"keep at most {n} rows of each group until {until}"
        case Reorder():
            yield "keep rows until their time has passed"
        case BandJoin() | GridJoin():
            yield from (_kept_of_input(operator, port) for port in range(operator.ports))
        case LastRowsJoin(last_rows=last_rows):
            yield f"keep the last {last_rows[0]} and {last_rows[1]} rows, and those that wait for both inputs"


def _kept_of_input(operator: BandJoin | GridJoin, port: int) -> str:
    span = operator.span(port)
    if span <= 1:
        return f"keep rows of input {port} until their time has passed"
    if span >= _FOREVER:
        return f"keep rows of input {port} until the other input has ended"
    return f"keep rows of input {port} for {_span(span, operator.schemas[port], operator.times[port])}"


def _span(span: int, schema: pa.Schema, time: str) -> str:
    return span_text(span, bool(pa.types.is_timestamp(schema.field(time).type)))
