"""The SQL front end: text in, a list of sources, views, sinks and queries as plain plan nodes out.

    text ─ tokens ─► statements ─┬─ CREATE SOURCE, SINK, VIEW, SET: read by hand over the tokens
                                 └─ SELECT: windows and unions of the papers become calls ─► sqlglot tree ─► nodes

    FROM: from_reader ─► from_tree ─► join_plan (join_match: what the conditions say; join_node: one Join of it)
    SELECT: rows (FROM, WHERE) ─► grouped or row by row ─► ranked (ROW_NUMBER) ─► distinct, all put together in select

    Text that is no statement, such as a condition that a Python program gives: lone_items

It may import errors, schema, expressions, operators, progress.rules and plan. It opens nothing: connectors are made by
the `Connectors` the caller passes in. No class of sqlglot leaves this folder.
"""

from penstock.sql.connect import SOURCE_OPTIONS, Connectors
from penstock.sql.lone_items import lone_aggregate, lone_expression, lone_items
from penstock.sql.script import NamedSink, Script, parse_script
from penstock.sql.sink_order import ORDER_OPTIONS

__all__ = [
    "ORDER_OPTIONS",
    "SOURCE_OPTIONS",
    "Connectors",
    "NamedSink",
    "Script",
    "lone_aggregate",
    "lone_expression",
    "lone_items",
    "parse_script",
]
