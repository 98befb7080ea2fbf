"""Cutting a query into subqueries, each with one stateful operator and the stateless operators after it.

Steps before the first stateful operator run where rows are read; steps after one run at its sites. A node that is read
twice is one producer with two branches, and a source that occurs twice is read once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from penstock.errors import QueryError
from penstock.expr.evaluate.scalar import check_predicate, result_schema
from penstock.expr.tree import Column, Named
from penstock.operators.distinct import DistinctRows
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.top import OrderColumn, TopRows
from penstock.operators.window.lateness import ClosingRule, NeverCloses, RowCloses
from penstock.plan.compile.flow import CompiledStream, Flow, mapped, of_operator, projected, united, windowed
from penstock.plan.compile.prepare import (
    Prepared,
    Tracks,
    closing_as,
    closing_by,
    computed,
    following,
    following_the_end,
)
from penstock.plan.compile.prepare_aggregate import prepare_aggregate
from penstock.plan.compile.prepare_join import prepare_join
from penstock.plan.fingerprint import describe
from penstock.plan.logical import (
    Aggregate,
    AssignWindows,
    Distinct,
    Filter,
    InOrder,
    Join,
    MapBatches,
    Node,
    Project,
    Sink,
    Source,
    SplitRows,
    TopN,
    Union,
    inputs_of,
)
from penstock.plan.options import CompileOptions
from penstock.plan.passes import passes
from penstock.plan.passes.narrow import narrowed
from penstock.plan.program import BY_TIME, Branch, FilterStep, Following, Input, Program, SplitStep, Subquery

_INPUTS = ("input", "inputs")


@dataclass(frozen=True)
class Query:
    """A continuous query, ready to run. `sources` are in the order of `program.inputs`."""

    sink: Sink
    sources: tuple[Source, ...]
    program: Program
    options: CompileOptions


def compile_query(sink: Sink, options: CompileOptions = CompileOptions()) -> Query:  # noqa: B008
    """Check a query, run the passes and cut it into subqueries."""
    node = sink.input
    for rewrite in passes(options):
        node = rewrite(node)
    cutter = _Cutter(options)
    stream = cutter.cut(node)
    cutter.end(stream, None)
    sources = tuple(source for source, _ in cutter.inputs)
    return Query(sink, sources, narrowed(cutter.program(stream.schema)), options)


def node_schema(node: Node) -> pa.Schema:
    """Return the schema of a node's result. Raises the error of the first expression or operator that is not valid."""
    return _Cutter(CompileOptions()).cut(node).schema


@dataclass
class _Stage:
    """A subquery under construction."""

    operator: Operator
    numbers: str | None
    branches: list[Branch] = field(default_factory=list)


class _Cutter:
    """Builds inputs and stages from a logical plan. Invariant: a stage comes after everything that feeds it."""

    def __init__(self, options: CompileOptions) -> None:
        self._options = options
        self._equal, self._known = EqualNodes(), dict[int, CompiledStream]()
        self.inputs: list[tuple[Source, list[Branch]]] = []
        self.stages: list[_Stage] = []

    def cut(self, node: Node) -> CompiledStream:
        """Return the stream of a node; the same one for an equal node."""
        if isinstance(node, Source):
            _refuse_namesake(node, [source for source, _ in self.inputs])
        number = self._equal.number(node)
        if number not in self._known:
            self._known[number] = self._cut(node)
        return self._known[number]

    def _cut(self, node: Node) -> CompiledStream:
        match node:
            case Source():
                return self._source(node)
            case Filter(below, predicate):
                stream = self.cut(below)
                check_predicate(stream.schema, predicate)
                return stream.each(lambda flow: flow.then(FilterStep(predicate)))
            case SplitRows(below, predicates, output):
                stream = self.cut(below)
                for predicate in predicates:
                    check_predicate(stream.schema, predicate)
                return stream.each(lambda flow: flow.then(SplitStep(predicates, output)))
            case Project(below, columns):
                _refuse_empty_name(named.name for named in columns)
                stream = self.cut(below)
                return stream.each(lambda flow: projected(flow, columns), result_schema(stream.schema, columns))
            case MapBatches(below):
                return mapped(node, self.cut(below))
            case Union(inputs):
                return united([self.cut(part) for part in inputs])
            case AssignWindows(below, window):
                return windowed(self.cut(below), window)
            case Aggregate() | Distinct() | TopN() | Join() | InOrder():
                return self._stateful(node)

    def _source(self, node: Source) -> CompiledStream:
        """Add an input for a source."""
        _refuse_reserved(node)
        flow = Flow(True, len(self.inputs), (), {node.time: Following(BY_TIME)})
        self.inputs.append((node, []))
        return CompiledStream((flow,), node.schema)

    def _stateful(self, node: Aggregate | Distinct | TopN | Join | InOrder) -> CompiledStream:
        """Add a stage for a stateful node, and end the streams that feed it at its ports."""
        prepared = self._prepared(node)
        number = len(self.stages)
        self.stages.append(_Stage(prepared.operator, prepared.numbers))
        ports = zip(prepared.streams, prepared.tracks, prepared.closings, strict=True)
        for port, (stream, tracks, closing) in enumerate(ports):
            self.end(stream, number, port, tracks, closing)
        return of_operator(number, prepared.operator, prepared.joint)

    def _prepared(self, node: Aggregate | Distinct | TopN | Join | InOrder) -> Prepared:
        match node:
            case Aggregate(below):
                return prepare_aggregate(node, self.cut(below), self._options)
            case Distinct(below):
                return prepare_distinct(node, self.cut(below), self._options)
            case TopN(below):
                return prepare_top(node, self.cut(below), self._options)
            case InOrder(below):
                return prepare_in_order(node, self.cut(below), self._options)
            case Join(inputs):
                return prepare_join(node, [self.cut(part) for part in inputs], self._options)

    def end(
        self,
        stream: CompiledStream,
        target: int | None,
        port: int = 0,
        tracks: Tracks | None = None,
        closing: Callable[[Following], ClosingRule] | None = None,
    ) -> None:
        """Add a branch that ends at a port for every flow of a stream."""
        for flow in stream.flows:
            branches = self.inputs[flow.producer][1] if flow.is_input else self.stages[flow.producer].branches
            followed = () if tracks is None else tracks.of(flow)
            by_window = closing if self._options.late_by_window and flow.may_be_late else None
            closes = by_window(followed[0]) if by_window else RowCloses()
            branches.append(Branch(flow.steps, target, port, tracks.first if tracks else 0, followed, closes))

    def program(self, schema: pa.Schema) -> Program:
        by_window = self._options.late_by_window
        inputs = tuple(
            Input(s.schema, s.time, s.progress, tuple(s.schema.names), False, tuple(branches), by_window)
            for s, branches in self.inputs
        )
        subqueries = tuple(
            Subquery(n, s.operator, tuple(s.branches), self._options.orders(s.operator), s.numbers)
            for n, s in enumerate(self.stages)
        )
        return Program(inputs, subqueries, schema)


def _refuse_reserved(source: Source) -> None:
    """Raise QueryError if a column name begins with #: such names are reserved for the engine."""
    if reserved := [name for name in source.schema.names if name.startswith("#")]:
        raise QueryError(
            f"source `{source.name}` has a column called `{reserved[0]}`",
            detail="names that begin with # are reserved for Penstock",
            hint="give the column another name where the data is written",
        )


def _refuse_empty_name(names: Iterable[str]) -> None:
    if "" in names:
        raise QueryError("a column cannot have an empty name", hint="give it a name of at least one letter")


def _refuse_namesake(source: Source, others: Iterable[Source]) -> None:
    """Raise QueryError if two sources have the same name and connectors that equal only themselves, such as Spark
    streams: a checkpoint knows such a source by its name alone."""
    if type(source.connector).__eq__ is not object.__eq__:
        return
    if any(o.name == source.name and o.connector is not source.connector for o in others):
        raise QueryError(
            f"two sources are called `{source.name}`",
            detail="they could not be told apart after a restart",
            hint='give each its own name, as in ps.read.spark(..., name="calls")',
        )


class EqualNodes:
    """Numbers nodes, equal nodes alike. A node is described by the numbers of its inputs, so that a long chain costs
    time linear in its length. Invariant: `_seen` keeps each numbered node alive, so that its id is not reused."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Node, int]] = {}
        self._numbers: dict[str, int] = {}

    def number(self, node: Node) -> int:
        """Return the number of a node."""
        if id(node) not in self._seen:
            described = json.dumps([_own(node), [self.number(part) for part in inputs_of(node)]], sort_keys=True)
            self._seen[id(node)] = node, self._numbers.setdefault(described, len(self._numbers))
        return self._seen[id(node)][1]


def _own(node: Node) -> dict[str, Any]:
    """Describe a node without its inputs. Python functions are told apart by identity, since two may have one name, as
    lambdas do."""
    own = {f.name: describe(getattr(node, f.name)) for f in fields(node) if f.name not in _INPUTS}
    function = {"#": id(node.function.call)} if isinstance(node, MapBatches) else {}
    return {"is": type(node).__name__, **own, **function}


def prepare_distinct(node: Distinct, below: CompiledStream, options: CompileOptions) -> Prepared:
    """Return the subquery of a Distinct node."""
    operator = DistinctRows(node.time, below.schema, options.hash_bits)
    return Prepared(operator, (below,), (following(below, node.time),), (closing_by(node.time),))


def prepare_in_order(node: InOrder, below: CompiledStream, options: CompileOptions) -> Prepared:
    """Return the subquery of an InOrder node."""
    operator = Reorder(node.time, below.schema, node.by, options.hash_bits)
    return Prepared(operator, (below,), (following(below, node.time),), (closing_by(node.time),))


def prepare_top(node: TopN, below: CompiledStream, options: CompileOptions) -> Prepared:
    """Return the subquery of a TopN node."""
    columns = tuple(below.schema.names)
    keys = [Named(f"#key.{i}", key) for i, key in enumerate(node.keys)]
    orders = [Named(f"#order.{i}", order.expression) for i, order in enumerate(node.order)]
    stream = computed(below, [*(Named(name, Column(name)) for name in columns), *keys, *orders])
    operator = TopRows(
        keys=tuple(named.name for named in keys),
        time=node.time,
        order=tuple(
            OrderColumn(named.name, order.descending, order.nulls_first)
            for named, order in zip(orders, node.order, strict=True)
        ),
        n=node.n,
        number=node.number,
        columns=columns,
        input_schema=stream.schema,
        hash_bits=options.hash_bits,
    )
    if node.time is None:  # nothing is decided before the end, so no row can be late
        return Prepared(operator, (stream,), (following_the_end(),), (closing_as(NeverCloses()),))
    return Prepared(operator, (stream,), (following(below, node.time),), (closing_by(node.time),))
