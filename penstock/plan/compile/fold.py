"""Two computations in a row become one: the upper one reads the lower one's expressions directly.

Only where the upper one uses each computed column at most once: an expression is never evaluated twice.
"""

from __future__ import annotations

from collections import Counter

from penstock.expr.tree import Column, Named, columns_of, substitute
from penstock.plan.program import Compute, Step
from penstock.plan.size import is_too_deep


def followed_by(steps: tuple[Step, ...], step: Step) -> tuple[Step, ...]:
    """The steps with one more behind them, as few as possible."""
    match (*steps[-1:], step):
        case (Compute(lower), Compute(upper)) if _cheap(lower, upper):
            bindings = {named.name: named.expression for named in lower}
            together = tuple(Named(n.name, substitute(n.expression, bindings)) for n in upper)
            if not any(is_too_deep(named.expression) for named in together):
                return (*steps[:-1], Compute(together))
    return (*steps, step)


def _cheap(lower: tuple[Named, ...], upper: tuple[Named, ...]) -> bool:
    uses = Counter(name for named in upper for name in columns_of(named.expression))
    return all(isinstance(named.expression, Column) or uses[named.name] <= 1 for named in lower)
