"""Two kinds of operators, declared by their bases: what becomes of rows that have arrived."""

from __future__ import annotations

import importlib
import pkgutil
from inspect import isclass

import pyarrow as pa

import penstock.operators
from penstock.operators.distinct import DistinctRows
from penstock.operators.protocol import ClosingOperator, Portion, ProbingOperator, Stored
from penstock.operators.reorder import Reorder
from penstock.progress.mark import BEGIN, END

ROWS = pa.table({"n": [1, 2, 3]})
NOTHING = ROWS.slice(0, 0)


def all_operators() -> list[type]:
    names = [found.name for found in pkgutil.walk_packages(penstock.operators.__path__, "penstock.operators.")]
    classes = {value for name in names for value in vars(importlib.import_module(name)).values() if isclass(value)}
    return [c for c in classes if hasattr(c, "work") and hasattr(c, "expired_below") and c.__name__ != "Operator"]


def test_every_operator_declares_its_kind() -> None:
    found = {c.__name__: (issubclass(c, ProbingOperator), issubclass(c, ClosingOperator)) for c in all_operators()}
    assert len(found) >= 9
    assert {name for name, kinds in found.items() if sum(kinds) != 1} == set()
    assert {name for name, (probes, _) in found.items() if probes} == {"BandJoin", "DistinctRows", "GridJoin"}


def test_rows_that_have_arrived_wait_for_a_probe_or_are_state_at_once() -> None:
    portion = Portion(([Stored(ROWS, 0, 1), Stored(ROWS, 0, 1)],), (ROWS,), (BEGIN,), (END,))
    schema = pa.schema([("ts", pa.int64())])
    probing, closing = DistinctRows("ts", schema), Reorder("ts", schema)
    assert probing.to_store([ROWS], [NOTHING]) == [NOTHING]
    assert closing.to_store([ROWS], [NOTHING]) == [ROWS, NOTHING]
    assert (probing.rows_to_do(portion), closing.rows_to_do(portion)) == (3, 6)
