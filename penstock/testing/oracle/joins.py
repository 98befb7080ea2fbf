"""Joins in batch: inner combinations by FROM and WHERE, plus the rows without a partner."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from penstock.expr.text import quoted, text
from penstock.expr.tree import Expr
from penstock.operators.bands import Band
from penstock.plan.logical import Join
from penstock.testing.oracle.relation import ROW, Relation, listed

_PRESERVED = {"left": (0,), "right": (1,), "full": (0, 1)}  # inputs whose rows without a partner are kept


def join_sql(node: Join, below: Sequence[Relation]) -> str:
    """Return one SQL statement for a join. `#i ...` are helper columns of input i: its key, its time, its row
    number."""
    sides = ", ".join(f"side{i} AS MATERIALIZED ({_side(node, i, relation)})" for i, relation in enumerate(below))
    joined = f"SELECT * FROM {', '.join(f'side{i}' for i in range(len(below)))} WHERE {_conditions(node)}"
    return f"WITH {sides}, pairs AS MATERIALIZED ({joined}) {_result(node)}"


def _side(node: Join, i: int, below: Relation) -> str:
    """Return SQL for the columns of an input under their names in the result, and its helper columns."""
    keys = [f"{text(key)} AS {_helper(i, f'key {n}')}" for n, key in enumerate(node.keys[i])]
    time = f"CAST({below.integer(node.times[i])} AS HUGEINT) AS {_helper(i, 'time')}"
    order = ROW if below.numbered else node.times[i]
    number = f"row_number() OVER (ORDER BY {below.integer(node.times[i])}, {quoted(order)}) AS {_helper(i, 'id')}"
    rows = f"SELECT {', '.join(['*', *keys, time, number])} FROM {below.name}"
    renamed = [f"{quoted(c)} AS {quoted(name)}" for c, name in zip(below.columns, node.names[i], strict=True)]
    helpers = [_helper(i, h) for h in (*(f"key {n}" for n in range(len(keys))), "time", "id")]
    return f"SELECT {', '.join([*renamed, *helpers])} FROM ({rows})"


def _helper(i: int, what: str) -> str:
    return quoted(f"#{i} {what}")


def _conditions(node: Join) -> str:
    found = [*_equalities(node.keys), *(part for band in node.bands for part in _band(band))]
    if node.last_rows is not None:
        found.append(_among_last(node.last_rows))
    if node.condition is not None:
        found.append(f"({text(node.condition)})")
    return " AND ".join(found) or "TRUE"


def _equalities(keys: tuple[tuple[Expr, ...], ...]) -> Iterator[str]:
    for i in range(1, len(keys)):
        for n in range(len(keys[0])):
            yield f"{_helper(0, f'key {n}')} = {_helper(i, f'key {n}')}"


def _band(band: Band) -> Iterator[str]:
    left, right = _helper(band.left, "time"), _helper(band.right, "time")
    if band.before is not None:
        yield f"{right} >= {left} - {band.before}"
    if band.after is not None:
        yield f"{right} <= {left} + {band.after}"


def _among_last(last_rows: tuple[int, int]) -> str:
    """Return SQL for a join over the last rows. The rows of both inputs are ordered together: by time, then by input,
    then by row number. A pair matches if the earlier row is among the last rows of its input before the later row."""
    first, second = _helper(0, "time"), _helper(1, "time")
    before_second = f"(SELECT count(*) FROM side0 s WHERE s.{first} <= side1.{second})"
    before_first = f"(SELECT count(*) FROM side1 s WHERE s.{second} < side0.{first})"
    in_first = f"({first} <= {second} AND {_helper(0, 'id')} > {before_second} - {last_rows[0]})"
    in_second = f"({second} < {first} AND {_helper(1, 'id')} > {before_first} - {last_rows[1]})"
    return f"({in_first} OR {in_second})"


def _result(node: Join) -> str:
    names = [name for of_input in node.names for name in of_input]
    partnered = f"SELECT {_helper(0, 'id')} FROM pairs"
    match node.kind:
        case "semi":
            return f"SELECT {listed(node.names[0])} FROM side0 WHERE {_helper(0, 'id')} IN ({partnered})"
        case "anti":
            return f"SELECT {listed(node.names[0])} FROM side0 WHERE {_helper(0, 'id')} NOT IN ({partnered})"
    alone = [_alone(node, i, names) for i in _PRESERVED.get(node.kind, ())]
    return " UNION ALL ".join([f"SELECT {listed(names)} FROM pairs", *alone])


def _alone(node: Join, i: int, names: Iterable[str]) -> str:
    """Return SQL for the rows of an input without a partner, with nulls for the other input."""
    own = set(node.names[i])
    columns = ", ".join(quoted(n) if n in own else f"NULL AS {quoted(n)}" for n in names)
    return f"SELECT {columns} FROM side{i} WHERE {_helper(i, 'id')} NOT IN (SELECT {_helper(i, 'id')} FROM pairs)"
