"""Rows of a sink in order of time: all of them, or only rows with equal values (`in_order_by = 'district, kind'`)."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import did_you_mean
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import InOrder, Node
from penstock.plan.lost_time import why_no_time
from penstock.plan.schema import columns_of_node, times_of
from penstock.sql.options import Options, flag
from penstock.sql.place import ScriptText
from penstock.sql.scope import spelled

_ALL, _BY = "in_order", "in_order_by"
ORDER_OPTIONS = (_ALL, _BY)


def rows_in_order(node: Node, options: Options, text: ScriptText) -> Node:
    """Put the rows in the order that a sink asks for; unchanged where it asks for none."""
    if not _asks(options, text):
        return node
    place = options.places[_BY if _BY in options.values else _ALL]
    ordered = InOrder(node, _time(node, place, text), tuple(_columns(node, options, text)))
    with text.placing(lambda: place):
        node_schema(ordered)  # a column by which rows cannot be told apart is refused here
    return ordered


def _asks(options: Options, text: ScriptText) -> bool:
    if _ALL not in options.values:
        return _BY in options.values
    with text.placing(lambda: options.places[_ALL]):
        asked = flag(_ALL, options.values[_ALL])
    if _BY in options.values and not asked:
        raise text.error(
            f"the sink says `{_BY}`, and that it is not in order",
            options.places[_ALL],
            hint=f"leave one of `{_ALL}` and `{_BY}` out",
        )
    return asked


def _time(node: Node, place: int, text: ScriptText) -> str:
    times = times_of(node)
    if not times:
        detail, hint = why_no_time(node)
        what = "a sink in order needs the time of its rows, and they have none"
        raise text.error(what, place, detail=detail, hint=hint)
    return times[0]


def _columns(node: Node, options: Options, text: ScriptText) -> Iterator[str]:
    """The columns that `in_order_by` names, as the rows spell them."""
    if _BY not in options.values:
        return
    known = columns_of_node(node)
    for name in map(str.strip, options.values[_BY].split(",")):
        meant = spelled(name, known)
        if meant is None:
            what = f"unknown column `{name}` in `{_BY}`" if name else f"`{_BY}` lacks the name of a column"
            raise text.error(what, options.places[_BY], hint=did_you_mean(name, known))
        yield meant
