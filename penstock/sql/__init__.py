"""The SQL front end: turns the text of a script into sources, views, sinks and queries as logical plan nodes.

    text ─ tokens ─ a dialect on sqlglot's parser ─► trees ─┬─ CREATE SOURCE, SINK, VIEW, SET ─► typed statements
                                                            └─ SELECT: bracket windows and UNION as calls ─► nodes

    parse/    text to tokens, statements and trees
    names/    trees to expressions: resolve names, functions and aggregates
    streams/  one item of FROM: a source, a view, a subquery, a union, or a window over one of them
    joins/    the tree of FROM to Join nodes: keys, bands on time, the time column of each input
    select/   rows (FROM, WHERE) ─► grouped or row by row ─► numbered (ROW_NUMBER) ─► distinct; combined in query

    declarations: CREATE SOURCE and CREATE SINK. script: all statements of a text.
    lone_items: text that is not a statement, such as a condition that a Python program passes

The front end opens no connection: the caller passes in a `Connectors` that makes them. No sqlglot class leaves this
folder.
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
