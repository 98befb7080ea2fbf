"""The names of aggregates in SQL, and the aggregates of the plan that they mean."""

from __future__ import annotations

from sqlglot import exp

from penstock.plan.logical import AGGREGATES

_ALSO_CALLED = {
    "mean": "avg",
    "stddev_samp": "stddev",
    "var_samp": "variance",
    "first_value": "first",
    "last_value": "last",
}
# `count(DISTINCT x)` has its own syntax.
AGGREGATE_NAMES: dict[str, str] = {name: name for name in AGGREGATES if name != "count_distinct"} | _ALSO_CALLED

_ELSEWHERE = {
    "median", "mode", "quantile", "quantile_cont", "quantile_disc", "approx_quantile", "approx_count_distinct",
    "string_agg", "group_concat", "listagg", "array_agg", "list", "any_value", "arg_max", "arg_min", "max_by", "min_by",
    "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "product", "corr", "covar_pop", "covar_samp", "entropy",
    "kurtosis", "skewness", "histogram",
}  # fmt: skip


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether the tree is an aggregate call, with or without FILTER; also for aggregates of other systems."""
    if isinstance(node, exp.Filter):
        return True
    return isinstance(node, exp.Anonymous) and (node.name.lower() in AGGREGATE_NAMES or is_foreign(node.name))


def is_foreign(name: str) -> bool:
    """Return whether this is an aggregate of other systems that Penstock does not have."""
    return name.lower() in _ELSEWHERE


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether the tree contains an aggregate call."""
    return any(is_aggregate(part) for part in node.walk())
