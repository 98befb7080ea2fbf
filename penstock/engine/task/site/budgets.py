"""The memory of this process while its sites run: the budget of each, and pages that are given back beyond it."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.wire.job import EpochJob
from penstock.state.budget import MEGABYTE, Budget, budget_for
from penstock.storage.memory import memory_limit, resident_bytes
from penstock.storage.open_runs import RESIDENT

BASE = 200 * MEGABYTE  # about what a worker takes without any rows
FREE = 0.4  # part of the budget that a step may take beyond what there was before it


def budget_of(job: EpochJob) -> Budget:
    """Return the budget of a site, and let the mapped state of this process take what its sites may together."""
    budget = budget_for(job.limits.memory, memory_limit(), job.width)
    RESIDENT.limit = budget.pages * _sites_here(job)
    return budget


def within_budget(job: EpochJob, budget: Budget) -> None:
    """Give freed memory and pages of mapped files back to the system if the next step might exceed the budget. An
    allocator keeps freed memory for its next arrays, which is faster as long as there is enough."""
    if resident_bytes() > BASE + (1 - FREE) * budget.total * _sites_here(job):
        RESIDENT.give_back()
        pa.default_memory_pool().release_unused()


def _sites_here(job: EpochJob) -> int:
    """Return how many sites of one level run in this process; levels run one after another."""
    return max((sum(state is not None for state in sites) for sites in job.sites), default=1)
