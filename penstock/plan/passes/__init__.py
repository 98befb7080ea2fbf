"""The passes over a logical plan, in the order in which they run. One per file; each returns an equivalent query."""

from __future__ import annotations

from collections.abc import Callable

from penstock.plan.logical import Node
from penstock.plan.options import CompileOptions
from penstock.plan.passes.put_in_order import put_in_order

IN_ORDER_PASSES = (put_in_order,)

__all__ = ["IN_ORDER_PASSES", "passes", "put_in_order"]


def passes(options: CompileOptions) -> tuple[Callable[[Node], Node], ...]:
    """Return the passes for the given options."""
    return IN_ORDER_PASSES if options.in_order else ()
