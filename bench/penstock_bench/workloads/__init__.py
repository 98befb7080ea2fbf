"""The workloads by name: what is asked of every system. One module a family; those over skewed keys belong to
experiments, and are no part of a benchmark of all workloads."""

from __future__ import annotations

from penstock.errors import ConfigError, did_you_mean
from penstock_bench.workload import Workload
from penstock_bench.workloads import calls, joins, nexmark, rows, skewed, windows

_FAMILIES = (windows, joins, rows, calls, nexmark)
WORKLOADS: dict[str, Workload] = {workload.name: workload for family in _FAMILIES for workload in family.ALL}
_NAMED = WORKLOADS | {workload.name: workload for workload in skewed.ALL}


def workload_named(name: str) -> Workload:
    """The workload of that name, or an error that suggests one."""
    if name not in _NAMED:
        raise ConfigError(f"unknown workload `{name}`", hint=did_you_mean(name, WORKLOADS))
    return _NAMED[name]
