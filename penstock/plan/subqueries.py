"""Cutting a query into subqueries: one stateful operator each, with the stateless operators behind it.

What stands before the first stateful operator is run where rows are read (an Input); what stands behind one is its
tail. The stages form a chain: each names the subquery that its rows go to, or the sink.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.expressions import Column, Expr, Named, columns_of
from penstock.expressions_text import text
from penstock.operators.aggregate import Measure, WindowAggregate
from penstock.operators.scalar import check_predicate, result_schema
from penstock.plan.nodes import Aggregate, Filter, Node, Project, Sink, Source
from penstock.plan.passes import PASSES
from penstock.progress.mark import MAX_TIME, MIN_TIME
from penstock.progress.rules import Rule

TIME_COLUMN = "##"  # the name of the progressing attribute inside an operator's input


@dataclass(frozen=True)
class Keep:
    """A stateless step: rows for which the predicate holds."""

    predicate: Expr


@dataclass(frozen=True)
class Compute:
    """A stateless step: new columns from old ones."""

    columns: tuple[Named, ...]


Step = Keep | Compute
SINK = -1  # the target of the last stage


@dataclass(frozen=True)
class Input:
    """What a task needs to know of a source: how its progress is told, which columns are read, and the stateless
    operators that run where it is read."""

    schema: pa.Schema
    time: str
    progress: Rule
    columns: tuple[str, ...]
    steps: tuple[Step, ...]
    target: int


@dataclass(frozen=True)
class Subquery:
    """A stateful operator and its stateless tail. Its number is its level: level n feeds only higher levels."""

    number: int
    operator: WindowAggregate
    tail: tuple[Step, ...]
    target: int


@dataclass(frozen=True)
class Program:
    """The part of a query that travels to tasks: a plain value, without connectors."""

    inputs: tuple[Input, ...]
    subqueries: tuple[Subquery, ...]
    result_schema: pa.Schema

    @property
    def time_range(self) -> tuple[int, int]:
        """The least and the largest event time whose windows, at every level, can be written as 64-bit times."""
        windows = [s.operator.window for s in self.subqueries]
        reach = sum(w.size + w.slide for w in windows)
        return MIN_TIME + reach, MAX_TIME - reach

    def inputs_of(self, subquery: int) -> tuple[int, ...]:
        """The inputs that feed a subquery directly."""
        return tuple(i for i, part in enumerate(self.inputs) if part.target == subquery)

    def feeders_of(self, subquery: int) -> tuple[int, ...]:
        """The subqueries that feed a subquery directly."""
        return tuple(s.number for s in self.subqueries if s.target == subquery)


@dataclass(frozen=True)
class Query:
    """A continuous query, ready to run. `sources` stand in the order of `program.inputs`."""

    sink: Sink
    sources: tuple[Source, ...]
    program: Program


@dataclass(frozen=True)
class _Chain:
    """What has been cut so far: stages, and the steps that follow the last of them."""

    source: Source
    stages: tuple[tuple[tuple[Step, ...], WindowAggregate], ...]  # (steps before the operator, the operator)
    steps: tuple[Step, ...]
    schema: pa.Schema


def compile_query(sink: Sink, hash_bits: int = 64) -> Query:
    """Check a query, run the passes and cut it into stages."""
    node = sink.input
    for rewrite in PASSES:
        node = rewrite(node)
    return _assemble(sink, _cut(node, hash_bits))


def node_schema(node: Node) -> pa.Schema:
    """The schema of a node's result; raises the error of the first expression or operator that does not fit."""
    return _cut(node, 64).schema


def _cut(node: Node, hash_bits: int) -> _Chain:
    match node:
        case Source():
            return _Chain(node, (), (), node.schema)
        case Filter(below, predicate):
            chain = _cut(below, hash_bits)
            check_predicate(chain.schema, predicate)
            return replace(chain, steps=(*chain.steps, Keep(predicate)))
        case Project(below, columns):
            chain = _cut(below, hash_bits)
            schema = result_schema(chain.schema, columns)
            return replace(chain, steps=(*chain.steps, Compute(columns)), schema=schema)
        case Aggregate():
            return _cut_aggregate(node, _cut(node.input, hash_bits), hash_bits)


def _cut_aggregate(node: Aggregate, chain: _Chain, hash_bits: int) -> _Chain:
    prepared = _operator_columns(node)
    schema = result_schema(chain.schema, prepared)
    operator = WindowAggregate(
        keys=tuple(key.name for key in node.keys),
        window=replace(node.window, time=TIME_COLUMN),
        measures=tuple(
            Measure(a.name, a.function, None if a.argument is None else _argument_name(a.argument))
            for a in node.aggregates
        ),
        input_schema=schema,
        hash_bits=hash_bits,
    )
    stage = ((*chain.steps, Compute(prepared)), operator)
    return _Chain(chain.source, (*chain.stages, stage), (), operator.result_schema)


def _operator_columns(node: Aggregate) -> tuple[Named, ...]:
    """The columns an aggregate reads: time, keys, and one per different argument."""
    arguments = [Named(_argument_name(a.argument), a.argument) for a in node.aggregates if a.argument is not None]
    different = {named.name: named for named in arguments}
    return (Named(TIME_COLUMN, Column(node.window.time)), *node.keys, *different.values())


def _argument_name(argument: Expr) -> str:
    """Equal for equal arguments, so that their aggregates share partials; never the name of a key."""
    return f"#{text(argument)}"


def _assemble(sink: Sink, chain: _Chain) -> Query:
    prefixes = [steps for steps, _ in chain.stages] + [chain.steps]
    last = len(chain.stages)
    targets = [number if number < last else SINK for number in range(last + 1)]
    source = chain.source
    columns = _columns_read(source, prefixes[0])
    inputs = (Input(source.schema, source.time, source.progress, columns, prefixes[0], targets[0]),)
    subqueries = tuple(
        Subquery(number, operator, prefixes[number + 1], targets[number + 1])
        for number, (_, operator) in enumerate(chain.stages)
    )
    return Query(sink, (source,), Program(inputs, subqueries, chain.schema))


def _columns_read(source: Source, steps: tuple[Step, ...]) -> tuple[str, ...]:
    """The columns of the source that its steps need, in the order of its schema; time is always read."""
    needed = {source.time}
    for step in steps:
        match step:
            case Keep(predicate):
                needed.update(columns_of(predicate))
            case Compute(columns):
                needed.update(name for named in columns for name in columns_of(named.expression))
                return tuple(name for name in source.schema.names if name in needed)
    return tuple(source.schema.names)  # nothing computed: all columns pass through
