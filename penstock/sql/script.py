"""Parse a script statement by statement: declare sources and views by name, plan sinks and queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.errors import PenstockWarning
from penstock.plan.logical import Node, Sink, Source
from penstock.plan.size import MAX_HEIGHT, MAX_NODES, measured
from penstock.sql.declarations import Connectors, sink_node, source_node
from penstock.sql.names.scope import spelled
from penstock.sql.parse.dialect import room_for_nesting, tokens_of, too_deep
from penstock.sql.parse.options import Value
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.statements import CreateSink, CreateSource, CreateView, Select, Set, Statement, statements
from penstock.sql.parse.tree import place_of
from penstock.sql.select.query import plan_query, plan_whole
from penstock.sql.streams.stream import Context, find_stream


@dataclass(frozen=True)
class NamedSink:
    """A sink and the name that CREATE SINK gives it."""

    name: str
    sink: Sink


@dataclass(frozen=True)
class Script:
    """The declarations of a script, in the order of the text.

    `queries` are the SELECT statements without a sink, named query_1, query_2 and so on; their results go to the
    terminal.
    """

    sources: Mapping[str, Source]
    views: Mapping[str, Node]
    sinks: tuple[NamedSink, ...]
    queries: tuple[tuple[str, Node], ...]
    settings: Mapping[str, Value]
    warnings: tuple[PenstockWarning, ...] = ()


def parse_script(text: str, *, connectors: Connectors, name: str = "script") -> Script:
    """Parse and plan the whole script; messages refer to the text as `name`.

    Raises QueryError for the first statement that is not valid; warnings are in the result.
    """
    script_text = ScriptText(text, name)
    with room_for_nesting():
        reader = _ScriptReader(script_text, connectors)
        for statement in statements(tokens_of(script_text), script_text):
            reader.read(statement)
    return reader.script()


@dataclass
class _ScriptReader:
    """The declarations of the statements read so far. Invariant: sources, views and sinks have different names."""

    text: ScriptText
    connectors: Connectors
    sources: dict[str, Source] = field(default_factory=dict)
    views: dict[str, Node] = field(default_factory=dict)
    sinks: dict[str, Sink] = field(default_factory=dict)
    queries: list[Node] = field(default_factory=list)
    settings: dict[str, Value] = field(default_factory=dict)

    def script(self) -> Script:
        """Return the declarations read so far as an immutable value."""
        sinks = tuple(NamedSink(name, sink) for name, sink in self.sinks.items())
        queries = tuple((f"query_{i}", node) for i, node in enumerate(self.queries, 1))
        return Script(self.sources, self.views, sinks, queries, self.settings, tuple(self.text.warnings))

    def read(self, statement: Statement) -> None:
        """Add the declarations of one statement."""
        match statement:
            case Set(key, value):
                self.settings[key] = value
            case Select(query):
                self.queries.append(self._plan(query))
            case CreateSource() | CreateView() | CreateSink() if self._is_new(statement):
                self._create(statement)

    def _is_new(self, statement: CreateSource | CreateView | CreateSink) -> bool:
        """Return whether to create what the statement declares; a name that is taken is an error without IF NOT
        EXISTS."""
        taken = spelled(statement.name, [*self.sources, *self.views, *self.sinks])
        if taken is not None and not statement.if_new:
            hint = "choose another name, or write IF NOT EXISTS"
            raise self.text.error(f"`{taken}` already exists", statement.offset, hint=hint)
        return taken is None

    def _create(self, statement: CreateSource | CreateView | CreateSink) -> None:
        match statement:
            case CreateSource(name):
                self.sources[name] = source_node(statement, self.connectors, self.text)
            case CreateView(name, query=query):
                self.views[name] = self._plan(query)
            case CreateSink(name, query=query):
                named = isinstance(query, exp.Identifier)
                node = self._named(query.name, statement.offset) if named else self._plan(query)
                self.sinks[name] = sink_node(statement, node, self.connectors, self.text)

    def _named(self, name: str, offset: int) -> Node:
        return find_stream(name, offset, self._context()).node

    def _context(self) -> Context:
        return Context(self.text, {**self.sources, **self.views}, plan_query)

    def _plan(self, query: exp.Expr) -> Node:
        node = plan_whole(query, self._context())
        _check_size(node, self.text, place_of(query))
        return node


def _check_size(node: Node, text: ScriptText, offset: int) -> None:
    """Refuse a plan with more levels or nodes than later passes can walk."""
    height, count = measured(node)
    if height > MAX_HEIGHT:
        raise too_deep(text, offset)
    if count > MAX_NODES:
        what = f"the query has more than {MAX_NODES} operators"
        raise text.error(what, offset, detail="a view that is read twice counts twice", hint="read views less often")
