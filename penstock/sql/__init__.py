"""The SQL front end: text in, a list of sources, views, sinks and queries as plain plan nodes out.

    text ─ tokens ─► statements ─┬─ CREATE SOURCE, SINK, VIEW, SET: read by hand over the tokens
                                 └─ SELECT: token rewriting of windows ─► sqlglot tree ─► plan nodes

It may import errors, schema, expressions, operators.window, operators.functions, progress.rules and plan. It opens
nothing: connectors are made by the `Connectors` the caller passes in. No class of sqlglot leaves this folder.
"""

from penstock.sql.connect import Connectors
from penstock.sql.script import NamedSink, Script, parse_script

__all__ = ["Connectors", "NamedSink", "Script", "parse_script"]
