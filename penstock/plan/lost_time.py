"""Explanations of why a stream has no progressing attribute, with what to do about it."""

from __future__ import annotations

from penstock.plan.logical import Join, MapBatches, Node, Project, Source, TopN, Union, inputs_of
from penstock.plan.schema import times_of

_FULL = "after a FULL JOIN either time may be null, so neither shows the progress of the result"
_LEFT_AND_ANTI = "use a LEFT JOIN and add, with UNION ALL, an ANTI JOIN for the other side: both keep their time"


def why_no_time(node: Node) -> tuple[str, str]:
    """Return, for a node without a time, which operator lost it, and a hint what to do instead."""
    match node:
        case Join(last_rows=tuple()):
            return "a join over the last rows pairs rows of any age", "join within a span of time instead"
        case Join(kind="full"):
            return _FULL, _LEFT_AND_ANTI
        case MapBatches(function=function):
            hint = "name the column that keeps the time, with time=... of map_batches"
            return f"the function `{function.name}` is declared to return no time", hint
        case TopN():
            return "a top-n of all rows comes at the end of the stream", "compute it per window, or per time"
        case Project(input=below) if times_of(below):
            lost = " or ".join(f"`{time}`" for time in times_of(below))
            return f"the time of the stream, {lost}, is not selected unchanged", f"also select {lost}, unchanged"
        case Union(inputs=inputs) if all(map(times_of, inputs)):
            return "the inputs of the union have their times in different columns", "select them at the same position"
        case Source():
            raise AssertionError("a source has a time")  # pragma: no cover
    return why_no_time(next(part for part in inputs_of(node) if not times_of(part)))
