"""Running the stateless steps of a stage over a table."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.operators.scalar import evaluate, keep
from penstock.plan.subqueries import Compute, Keep, Step


def run_steps(rows: pa.Table, steps: Sequence[Step]) -> pa.Table:
    for step in steps:
        match step:
            case Keep(predicate):
                rows = keep(rows, predicate)
            case Compute(columns):
                rows = evaluate(rows, columns)
    return rows
