"""Why a stream has no progressing attribute any more, and what to do about it."""

from __future__ import annotations

from penstock.plan.logical import Join, MapBatches, Node, Project, Source, TopN, Union, inputs_of
from penstock.plan.schema import times_of

_FULL = "behind a FULL JOIN either time may be null, so none of them tells how far the result is"
_LEFT_AND_ANTI = (
    "take a LEFT JOIN, and with UNION ALL the rows of the other side that an ANTI JOIN finds: both pass on their time"
)


def why_no_time(node: Node) -> tuple[str, str]:
    """The operator that lost the times of a stream without any, in words, and what to do instead."""
    match node:
        case Join(last_rows=tuple()):
            return "a join over the last rows pairs rows of any age", "join within a span of time instead"
        case Join(kind="full"):
            return _FULL, _LEFT_AND_ANTI
        case MapBatches(function=function):
            hint = "name the column that keeps the time, with time=... of map_batches"
            return f"the function `{function.name}` is declared to give no time", hint
        case TopN():
            return "a top-n of all rows comes at the end of the stream", "take it per window, or per time"
        case Project(input=below) if times_of(below):
            lost = " or ".join(f"`{time}`" for time in times_of(below))
            return f"the time of the stream, {lost}, is not selected as it is", f"select {lost} too, as it is"
        case Union(inputs=inputs) if all(map(times_of, inputs)):
            return "the times of the inputs of the union stand in different columns", "select them at the same place"
        case Source():
            raise AssertionError("a source has a time")  # pragma: no cover
    return why_no_time(next(part for part in inputs_of(node) if not times_of(part)))
