"""What is known about windows that are joined by their borders."""

from __future__ import annotations

from penstock.expr.tree import Column
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Distinct, Filter, Node, Project, TopN, Windows
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.sql.unit import Unit

Side = tuple[Unit, str, str]  # an input, a time of it, and another one


def end_together(left: Side, right: Side) -> bool:
    """Whether inputs that are equal in the first time have to be equal in the second: they are the borders of windows
    of one size."""
    borders = _borders(left)
    return borders == _borders(right) and set(borders[1:]) == set(WINDOW_COLUMNS) and borders[0] is not None


def _borders(side: Side) -> tuple[int | None, str, str]:
    unit, first, second = side
    own = {row: name for name, row in unit.own_to_row}
    return window_size(unit.node), own[first], own[second]


def window_size(node: Node) -> int | None:
    """How long the windows are that a node gives rows for; None where it cannot be seen that its columns called like
    their borders are those."""
    match node:
        case Windows(window=window) | Aggregate(window=Window() as window):
            return window.size
        case Filter(input=below) | Distinct(input=below) | TopN(input=below):
            return window_size(below)
        case Project(input=below, columns=columns):
            moved = [c for c in columns if c.name in WINDOW_COLUMNS and c.expression != Column(c.name)]
            return None if moved else window_size(below)
    return None
