"""How rows travel to an operator, as people read it; and, where all of them meet at one site, why."""

from __future__ import annotations

from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.operators.session.session import SessionAggregate
from penstock.operators.theta_join.join import GridJoin
from penstock.operators.theta_join.last_rows import LastRowsJoin
from penstock.operators.top import TopRows
from penstock.operators.window.aggregate import WindowAggregate


def exchange_line(operator: Operator, port: int, subquery: int) -> str:
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
    """Why all rows of an operator meet at one site; None where they do not."""
    match operator:
        case Reorder(keys=()):
            return "the order is over all rows (in_order(by=…), or in_order_by of a sink, spreads it)"
        case WindowAggregate(keys=()) | SessionAggregate(keys=()) | TopRows(keys=(), time=None):
            return "all rows are one group"
        case GridJoin(grid=(1, 1), follows_sites=False) | LastRowsJoin(grid=(1, 1), follows_sites=False):
            return "the grid has one cell"
    return None
