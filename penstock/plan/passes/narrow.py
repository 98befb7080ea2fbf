"""Column pruning: columns that no consumer reads are neither read from the source nor kept by a join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from penstock.expr.walk import columns_of
from penstock.operators.band_join.join import BandJoin
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.plan.program import (
    ROW_NUMBER,
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
from penstock.progress.mark import Punctuated

Joining = BandJoin | GridJoin | LastRowsJoin


def narrowed(program: Program) -> Program:
    """Return the program with joins and inputs reduced to the columns that their consumers read."""
    for number in reversed(range(len(program.subqueries))):
        subquery = program.subqueries[number]
        if isinstance(subquery.operator, BandJoin | GridJoin | LastRowsJoin):
            program = _with_narrow_join(program, subquery, subquery.operator)
    return replace(program, inputs=tuple(map(_narrow_input, program.inputs)))


def _narrow_input(part: Input) -> Input:
    """Reduce an input to the columns that its branches and its progress rule read."""
    needed = {part.time, *_read_by_progress(part)} | _needed(part.branches, part.schema.names)
    columns = tuple(name for name in part.schema.names if name in needed)
    return replace(part, columns=columns, numbered=ROW_NUMBER in needed)


def _read_by_progress(part: Input) -> Iterable[str]:
    return columns_of(part.progress.predicate) if isinstance(part.progress, Punctuated) else ()


def _needed(branches: Iterable[Branch], names: Sequence[str]) -> set[str]:
    """Return the columns of a producer that its branches read."""
    return {name for branch in branches for name in _read_by(branch.steps, names)}


def _read_by(steps: Iterable[Step], names: Sequence[str]) -> set[str]:
    """Return the columns that some steps read; all of `names` if they pass through to the end."""
    needed: set[str] = set()
    for step in steps:
        match step:
            case FilterStep(predicate):
                needed.update(columns_of(predicate))
            case SplitStep(predicates):
                needed.update(name for predicate in predicates for name in columns_of(predicate))
            case AssignWindowsStep(window):
                needed.add(window.time)
            case ProjectStep(columns):
                return needed | {name for named in columns for name in columns_of(named.expression)}
            case MapBatchesStep():
                break
    return needed | set(names)


def _with_narrow_join(program: Program, subquery: Subquery, join: Joining) -> Program:
    """Reduce a join, and the branches that feed it, to the columns that its consumers read."""
    needed = _needed(subquery.branches, join.result_schema.names)
    narrow = _narrow_join(join, needed)
    changed = replace(subquery, operator=narrow)
    subqueries = [changed if s.number == subquery.number else s for s in program.subqueries]
    subqueries = [replace(s, branches=_feeding(s.branches, subquery.number, narrow)) for s in subqueries]
    inputs = [replace(part, branches=_feeding(part.branches, subquery.number, narrow)) for part in program.inputs]
    return replace(program, inputs=tuple(inputs), subqueries=tuple(subqueries))


def _narrow_join(join: Joining, needed: set[str]) -> Joining:
    """Reduce the output and the state of a join to the needed columns, its keys and times, and those of its
    condition."""
    needed = needed or {join.payload[0][0]}  # a table without columns has no row count
    payload: Any = tuple(tuple(name for name in names if name in needed) for names in join.payload)
    kept = needed | {*join.times, ROW_NUMBER}
    kept |= set(columns_of(join.condition)) if join.condition is not None else set()
    kept |= {name for names in join.keys for name in names} if isinstance(join, BandJoin) else set()
    schemas: Any = tuple(pa.schema([field for field in schema if field.name in kept]) for schema in join.schemas)
    return replace(join, payload=payload, schemas=schemas)


def _feeding(branches: Iterable[Branch], target: int, join: Joining) -> tuple[Branch, ...]:
    return tuple(_without_unread(b, join.schemas[b.port]) if b.target == target else b for b in branches)


def _without_unread(branch: Branch, schema: pa.Schema) -> Branch:
    """Drop the columns that a join does not read from the last step of a branch, which computes the columns of the
    join."""
    *before, last = branch.steps
    assert isinstance(last, ProjectStep)
    kept = tuple(named for named in last.columns if named.name in schema.names)
    return replace(branch, steps=(*before, ProjectStep(kept)))
