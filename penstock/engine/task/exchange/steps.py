"""Running stateless steps over a table: those of one branch, or of all branches of a producer at once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.engine.task.exchange.steps_apply import apply
from penstock.engine.task.exchange.steps_assign import assign
from penstock.engine.task.exchange.steps_divide import outputs_of
from penstock.expr.evaluate.scalar import evaluate, keep
from penstock.expr.text import text
from penstock.plan.program import Apply, Assign, Branch, Compute, Divide, Keep, Step

_Steps = Sequence[Step]


def run_steps(rows: pa.Table, steps: _Steps) -> pa.Table:
    for step in steps:
        rows = _run(rows, step)
    return rows


def run_branches(rows: pa.Table, branches: Sequence[Branch]) -> list[pa.Table]:
    """What comes out of each branch. Steps that several begin with are run once for all of them."""
    results = dict(_run_all(rows, [(number, branch.steps) for number, branch in enumerate(branches)]))
    return [results[number] for number in range(len(branches))]


def _run(rows: pa.Table, step: Step) -> pa.Table:
    match step:
        case Keep(predicate):
            return keep(rows, predicate)
        case Divide(predicates, output):
            return _of_output(rows, outputs_of(rows, predicates), output)
        case Compute(columns):
            return evaluate(rows, columns)
        case Assign(window):
            return assign(rows, window)
        case Apply():
            return apply(rows, step)
        case _:
            assert_never(step)


def _run_all(rows: pa.Table, numbered: Sequence[tuple[int, _Steps]]) -> Iterator[tuple[int, pa.Table]]:
    """(number, result) for each of the numbered steps."""
    yield from ((number, rows) for number, steps in numbered if not steps)
    divided: dict[Hashable, npt.NDArray[np.int64]] = {}
    for alike in _by_first_step(numbered):
        step = alike[0][1][0]
        rest = [(number, steps[1:]) for number, steps in alike]
        yield from _run_all(_run_shared(rows, step, divided), rest)


def _run_shared(rows: pa.Table, step: Step, divided: dict[Hashable, npt.NDArray[np.int64]]) -> pa.Table:
    """The same as `_run`, except that the predicates of a division are tried once for all of its outputs."""
    if not isinstance(step, Divide):
        return _run(rows, step)
    predicates = tuple(map(text, step.predicates))
    if predicates not in divided:
        divided[predicates] = outputs_of(rows, step.predicates)
    return _of_output(rows, divided[predicates], step.output)


def _of_output(rows: pa.Table, outputs: npt.NDArray[np.int64], output: int) -> pa.Table:
    return rows.filter(pa.array(outputs == output))


def _by_first_step(numbered: Sequence[tuple[int, _Steps]]) -> list[list[tuple[int, _Steps]]]:
    """Those that begin with the same step together."""
    groups: dict[Hashable, list[tuple[int, _Steps]]] = {}
    for number, steps in numbered:
        if steps:
            groups.setdefault(_meaning(steps[0]), []).append((number, steps))
    return list(groups.values())


def _meaning(step: Step) -> Hashable:
    """Equal for steps that do the same. Expressions count as text, for Literal(1) == Literal(True); a function counts
    as itself, for it need not be hashable."""
    match step:
        case Keep(predicate):
            return Keep, text(predicate)
        case Divide(predicates, output):
            return Divide, tuple(map(text, predicates)), output
        case Compute(columns):
            return Compute, tuple((named.name, text(named.expression)) for named in columns)
        case Apply(function, schema, times):
            return Apply, function.name, id(function.call), schema, times
        case _:
            return step
