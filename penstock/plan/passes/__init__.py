"""The passes over a logical plan, in the order in which they run. One a file; each gives an equal query."""

from penstock.plan.passes.fold_projects import fold_projects

PASSES = (fold_projects,)

__all__ = ["PASSES", "fold_projects"]
