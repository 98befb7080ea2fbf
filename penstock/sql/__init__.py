"""The SQL front end: text in, a list of sources, views, sinks and queries as plain plan nodes out.

    text ─ tokens ─► statements ─┬─ CREATE SOURCE, SINK, VIEW, SET: read by hand over the tokens
                                 └─ SELECT: windows and unions of the papers become calls ─► sqlglot tree ─► nodes

    parse/    from text to tokens, statements and trees
    names/    from trees to expressions: what names, functions and aggregates mean
    streams/  one item of FROM: a source, a view, a query, a union, a window over one of them
    joins/    from the tree of FROM to Join nodes: keys, bounds on time, which time of each input
    select/   rows (FROM, WHERE) ─► grouped or row by row ─► ranked (ROW_NUMBER) ─► distinct, put together in query

    declarations: CREATE SOURCE and CREATE SINK. script: all statements of a text.
    lone_items: text that is no statement, such as a condition that a Python program gives

It opens nothing: connectors are made by the `Connectors` the caller passes in. No class of sqlglot leaves this folder.
"""

from penstock.sql.declarations import ORDER_OPTIONS, SOURCE_OPTIONS, Connectors
from penstock.sql.lone_items import lone_aggregate, lone_expression, lone_items
from penstock.sql.script import NamedSink, Script, parse_script

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
