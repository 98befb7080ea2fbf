"""The text of a plan: sources, subqueries with their operators, and the sink, from the bottom up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from penstock.expr.text import text
from penstock.expr.tree import Column, Named
from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.session.session import SessionAggregate
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.operators.top import TopRows
from penstock.operators.window.aggregate import WindowAggregate
from penstock.plan.compile.prepare_aggregate import TIME_COLUMN
from penstock.plan.compile.subqueries import Query
from penstock.plan.explain.operator import Shown, before_travelling, operator_lines, window_text
from penstock.plan.logical import Source
from penstock.plan.program import (
    AssignWindowsStep,
    Branch,
    FilterStep,
    Input,
    MapBatchesStep,
    Program,
    ProjectStep,
    SplitStep,
    Step,
    Subquery,
)
from penstock.progress.mark import Ordered, Punctuated, Slack
from penstock.type_names import sql_type
from penstock.units import span_text


def explain(query: Query) -> str:
    """Return the text of a query's plan, one line per step."""
    lines: list[str] = []
    for source, part in zip(query.sources, query.program.inputs, strict=True):
        lines += _input_lines(source, part, query.program)
    for subquery in query.program.subqueries:
        lines += _subquery_lines(subquery, query.program)
    columns = ", ".join(f"{f.name} {sql_type(f.type)}" for f in query.program.result_schema)
    return "\n".join([*lines, f"sink {query.sink.connector.kind}: {columns}"])


def _input_lines(source: Source, part: Input, program: Program) -> Iterator[str]:
    yield f"source {source.name} ({source.connector.kind}), time {source.time}, {_progress(source)}"
    yield f"  read {', '.join(part.columns)}{' and number the rows' if part.numbered else ''}"
    yield from _branch_lines(part.branches, program)


def _progress(source: Source) -> str:
    is_timestamp = bool(pa.types.is_timestamp(source.schema.field(source.time).type))
    allowed = source.progress.allowed
    return _rule(source, is_timestamp) + (
        f", {span_text(allowed, is_timestamp)} of lateness allowed" if allowed else ""
    )


def _rule(source: Source, is_timestamp: bool) -> str:
    match source.progress:
        case Slack(span):
            return f"slack {span_text(span, is_timestamp)}"
        case Ordered():
            return "ordered"
        case Punctuated(predicate):
            return f"punctuated where {text(predicate)}"


def _subquery_lines(subquery: Subquery, program: Program) -> Iterator[str]:
    first, *others = operator_lines(subquery.operator, _expressions(subquery, program))
    yield f"subquery {subquery.number}: {first}"
    if subquery.ordered:
        yield "  merge in order of time"
    yield from (f"  {line}" for line in others)
    yield from _branch_lines(subquery.branches, program)


def _expressions(subquery: Subquery, program: Program) -> Shown:
    """Return the expressions of the columns that a subquery gets under internal names, by port and name."""
    branches = [feed.branch for feed in program.feeds(subquery.number) if feed.branch.steps]
    last = [(branch.port, branch.steps[-1]) for branch in branches]
    named = [(port, column) for port, step in last if isinstance(step, ProjectStep) for column in step.columns]
    return {(port, c.name): text(c.expression) for port, c in named if c.name.startswith("#")}


def _branch_lines(branches: Sequence[Branch], program: Program) -> Iterator[str]:
    for number, branch in enumerate(branches, 1):
        lines = [*_step_lines(branch.steps), *_target_lines(branch, program)]
        if len(branches) > 1:
            yield f"  branch {number}"
        yield from (f"{'    ' if len(branches) > 1 else '  '}{line}" for line in lines)


def _step_lines(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        match step:
            case FilterStep(predicate):
                yield f"keep {text(predicate)}"
            case SplitStep(predicates, output):
                yield f"keep output {output} of a split by {', '.join(map(text, predicates))}"
            case ProjectStep(columns):
                yield f"compute {', '.join(dict.fromkeys(map(_computed, columns)))}"
            case AssignWindowsStep(window):
                yield f"assign windows by {window.time}: {window_text(window, True)}"
            case MapBatchesStep(function):
                yield f"apply {function.name}"


def _computed(named: Named) -> str:
    shown = text(named.expression)
    if named.name == TIME_COLUMN:
        return f"time = {shown}"
    unnamed = named.name.startswith("#") or named.expression == Column(named.name)
    return shown if unnamed else f"{named.name} = {shown}"


def _target_lines(branch: Branch, program: Program) -> Iterator[str]:
    if branch.target is None:
        return
    target = program.subqueries[branch.target]
    if not target.takes_rows:
        yield from before_travelling(target.operator)
    yield exchange_line(target.operator, branch.port, branch.target)


def exchange_line(operator: Operator, port: int, subquery: int) -> str:
    """Return the line that says how rows are sent to a port."""
    to = f"subquery {subquery}" + (f", input {port}" if operator.ports > 1 else "")
    if (why := why_one_site(operator)) is not None:
        return f"exchange to one site of {to}: {why}"
    match operator:
        case GridJoin():
            return f"exchange by grid to {to}: each row to a {('row', 'column')[port]} of cells"
        case LastRowsJoin():
            return f"exchange to all cells of {to}: each row looks back in one of them"
        case _:
            return f"exchange by key hash to {to}"


def why_one_site(operator: Operator) -> str | None:
    """Return why all rows of an operator are sent to one site; None if they are not."""
    match operator:
        case Reorder(keys=()):
            return "the order is over all rows (in_order(by=…), or in_order_by of a sink, spreads it)"
        case WindowAggregate(keys=()) | SessionAggregate(keys=()) | TopRows(keys=(), time=None):
            return "all rows are one group"
        case GridJoin(grid=(1, 1), follows_sites=False) | LastRowsJoin(grid=(1, 1), follows_sites=False):
            return "the grid has one cell"
    return None
