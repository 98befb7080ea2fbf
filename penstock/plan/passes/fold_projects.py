"""Two projections in a row become one: the upper one reads the lower one's expressions directly.

Only where the upper one uses each computed column at most once: an expression is never evaluated twice.
"""

from __future__ import annotations

from collections import Counter

from penstock.expressions import Column, Named, columns_of, substitute
from penstock.plan.nodes import Node, Project
from penstock.plan.rewrite import bottom_up


def fold_projects(node: Node) -> Node:
    return bottom_up(node, _fold)


def _fold(node: Node) -> Node:
    match node:
        case Project(Project(below, lower), upper) if _cheap(lower, upper):
            bindings = {named.name: named.expression for named in lower}
            return Project(below, tuple(Named(n.name, substitute(n.expression, bindings)) for n in upper))
        case _:
            return node


def _cheap(lower: tuple[Named, ...], upper: tuple[Named, ...]) -> bool:
    uses = Counter(name for named in upper for name in columns_of(named.expression))
    return all(isinstance(named.expression, Column) or uses[named.name] <= 1 for named in lower)
