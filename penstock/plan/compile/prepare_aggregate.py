"""Aggregates over windows of every kind: the columns they read, and their operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from penstock.expr.text import text
from penstock.expr.tree import Column, Expr, Named
from penstock.operators.equal_times import EqualTimesAggregate
from penstock.operators.session.session import SessionAggregate
from penstock.operators.window.aggregate import Measure, WindowAggregate
from penstock.operators.window.kinds import EqualTimes, RowWindow, Session
from penstock.operators.window.lateness import ClosingRule, NeverCloses, SessionCloses, WindowCloses
from penstock.operators.window.windows import Window
from penstock.plan.common_types import type_of
from penstock.plan.compile.flow import CompiledStream, Joint
from penstock.plan.compile.numbering import numbered
from penstock.plan.compile.prepare import (
    FOLLOWING_NUMBERS,
    Prepared,
    closing_as,
    closing_by,
    computed,
    following,
    following_jointly,
)
from penstock.plan.logical import Aggregate, Aggregation
from penstock.plan.options import CompileOptions
from penstock.plan.program import ROW_NUMBER
from penstock.plan.window_bounds import check_aggregated
from penstock.state.runs import TIME

TIME_COLUMN = "##"  # the name of the progressing attribute inside an operator's input


def prepare_aggregate(node: Aggregate, below: CompiledStream, options: CompileOptions) -> Prepared:
    """Return the subquery of an aggregate."""
    match node.window:
        case Window() | Session() as window:
            if isinstance(window, Window) and window.time in below.schema.names:
                check_aggregated(window, below.schema.field(window.time).type)
            stream = computed(below, _columns(node, window.time))
            operator = _operator(node, stream, window, options, options.late_by_window and below.may_be_late)
            return Prepared(operator, (stream,), (following(below, window.time),), (closing_as(_closing(operator)),))
        case RowWindow(size, slide):
            check_aggregated(Window(ROW_NUMBER, size, slide), pa.int64())
            rows = numbered(below)
            stream = computed(rows, _columns(node, ROW_NUMBER))
            operator = _operator(node, stream, Window(TIME_COLUMN, size, slide), options)
            return Prepared(operator, (stream,), (FOLLOWING_NUMBERS,), (closing_as(NeverCloses()),), numbers=TIME)
        case EqualTimes(times):
            return _moments(node, below, times, options)


def _operator(
    node: Aggregate,
    stream: CompiledStream,
    window: Window | Session,
    options: CompileOptions,
    may_be_late: bool = False,
) -> WindowAggregate | SessionAggregate:
    """Return the operator of an aggregate over windows of time or sessions. `may_be_late`: rows may arrive for which
    some windows are closed."""
    keys, measures, bits = tuple(key.name for key in node.keys), _measures(node), options.hash_bits
    match replace(window, time=TIME_COLUMN):
        case Window() as time_window:
            partly = may_be_late and time_window.size > time_window.slide
            return WindowAggregate(keys, time_window, measures, stream.schema, bits, partly)
        case Session() as session:
            return SessionAggregate(keys, session, measures, stream.schema, bits, may_be_late)


def _closing(operator: WindowAggregate | SessionAggregate) -> ClosingRule:
    """Return when rows are late for an aggregate."""
    match operator:
        case WindowAggregate(window=window, takes_late=shared):
            return WindowCloses(window, shared)
        case SessionAggregate(window=session):
            return SessionCloses(session)


def _moments(node: Aggregate, below: CompiledStream, times: Sequence[str], options: CompileOptions) -> Prepared:
    """Return the subquery of an aggregate grouped by the times themselves."""
    stream = computed(below, [*(Named(time, Column(time)) for time in times), *node.keys, *_arguments(node)])
    tracks = following_jointly(below, times)
    joint = below.flows[0].joint if tracks is not None else None
    latest = _latest(joint, times)
    keys = tuple(key.name for key in node.keys)
    operator = EqualTimesAggregate(keys, tuple(times), latest, _measures(node), stream.schema, options.hash_bits)
    # Of times that are bounded separately, the first alone completes a group; a track without branches has ended.
    return Prepared(operator, (stream,), (tracks or following(below, times[0]),), (closing_by(times[0]),))


def _latest(joint: Joint | None, times: Sequence[str]) -> tuple[int | None, ...]:
    """Return by how much each time may exceed the first one (None: unbounded)."""
    if joint is None:
        return (0, *[None] * (len(times) - 1))
    places = [joint.names.index(time) for time in times]
    return (0, *(joint.leads[places[0]][place] for place in places[1:]))


def check_argument(aggregation: Aggregation, below: pa.Schema) -> None:
    """Raise QueryError if an aggregate does not take the type that its argument has over rows of this schema."""
    if (argument := aggregation.argument) is not None:
        _measure(aggregation).check(pa.schema([(_argument_name(argument), type_of(argument, below))]))


def _measures(node: Aggregate) -> tuple[Measure, ...]:
    return tuple(map(_measure, node.aggregates))


def _measure(aggregation: Aggregation) -> Measure:
    argument = aggregation.argument
    return Measure(aggregation.name, aggregation.function, None if argument is None else _argument_name(argument))


def _columns(node: Aggregate, time: str) -> tuple[Named, ...]:
    """Return the columns that an aggregate reads: time, keys, and one per different argument."""
    return (Named(TIME_COLUMN, Column(time)), *node.keys, *_arguments(node))


def _arguments(node: Aggregate) -> tuple[Named, ...]:
    """Return one column per different argument."""
    arguments = [Named(_argument_name(a.argument), a.argument) for a in node.aggregates if a.argument is not None]
    return tuple({named.name: named for named in arguments}.values())


def _argument_name(argument: Expr) -> str:
    """Return a name that is equal for equal arguments, so that their aggregates share partials, and never the name of a
    key."""
    return f"#{text(argument)}"
