"""Experiments beside the workloads: what an epoch, a slide, expiry and a row of state cost, and how late results are.

Each is an `Experiment`: it takes a setting and gives a table, bars with their verdicts, and pictures. What needs a
process of its own is a part (`*_run.py`).
"""

from __future__ import annotations

from penstock.bench.also.adapter import ADAPTER
from penstock.bench.also.epoch_cost import EPOCH_COST
from penstock.bench.also.experiment import Experiment
from penstock.bench.also.expiry import EXPIRY
from penstock.bench.also.join_memory import JOIN_MEMORY
from penstock.bench.also.latency import LATENCY
from penstock.bench.also.slide_cost import SLIDE_COST
from penstock.bench.also.wide import WIDE

BESIDE: tuple[Experiment, ...] = (EPOCH_COST, SLIDE_COST, EXPIRY, LATENCY, WIDE, ADAPTER, JOIN_MEMORY)
