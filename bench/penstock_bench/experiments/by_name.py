"""All experiments by name: those beside the workloads, and those on adapting and on overflow, which also have one name
together."""

from __future__ import annotations

from collections.abc import Iterable

from penstock_bench.adapt.degrading import DEGRADING
from penstock_bench.adapt.elastic import ELASTIC_SITES
from penstock_bench.adapt.epoch_length import EPOCH_LENGTH
from penstock_bench.adapt.fetching import ADAPT_FETCH
from penstock_bench.adapt.flush import ADAPT_FLUSH
from penstock_bench.adapt.policies import ALL_POLICIES
from penstock_bench.adapt.rotating import ROTATING
from penstock_bench.adapt.rounds import ROUNDS_VARIED
from penstock_bench.adapt.skew import SKEW
from penstock_bench.adapt.skew_sites import SKEW_SITES
from penstock_bench.adapt.slowed import SLOWED
from penstock_bench.adapt.tuning import TUNING
from penstock_bench.experiments.adapter import ADAPTER
from penstock_bench.experiments.epoch_cost import EPOCH_COST
from penstock_bench.experiments.experiment import Experiment
from penstock_bench.experiments.expiry import EXPIRY
from penstock_bench.experiments.join_memory import JOIN_MEMORY
from penstock_bench.experiments.latency import LATENCY
from penstock_bench.experiments.slide_cost import SLIDE_COST
from penstock_bench.experiments.wide import WIDE
from penstock_bench.overflow.active import ACTIVE_OR_LAZY
from penstock_bench.overflow.halved import HALVED
from penstock_bench.overflow.lazy import LAZY_OR_LOCAL
from penstock_bench.overflow.mixed import MIXED
from penstock_bench.overflow.moved import MOVED_OR_PARKED
from penstock_bench.overflow.portion import PORTION
from penstock_bench.overflow.spans import SPANS_VARIED
from penstock_bench.overflow.victims import VICTIMS
from penstock_bench.peers.overflow_peers import OVERFLOW_PEERS

ADAPT, OVERFLOW = "adapt", "overflow"
BESIDE = (EPOCH_COST, SLIDE_COST, EXPIRY, LATENCY, WIDE, ADAPTER, JOIN_MEMORY, OVERFLOW_PEERS)
ADAPTING = (
    SLOWED, DEGRADING, ROUNDS_VARIED, ROTATING, SKEW, SKEW_SITES, ELASTIC_SITES, ADAPT_FETCH, ADAPT_FLUSH,
    TUNING, EPOCH_LENGTH, ALL_POLICIES,
)  # fmt: skip

OVERFLOWING = (PORTION, VICTIMS, SPANS_VARIED, MOVED_OR_PARKED, LAZY_OR_LOCAL, ACTIVE_OR_LAZY, HALVED, MIXED)
TOGETHER = {ADAPT: ADAPTING, OVERFLOW: OVERFLOWING}

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*BESIDE, *ADAPTING, *OVERFLOWING)}


def experiment_names() -> list[str]:
    """All that can be named."""
    return [*EXPERIMENTS, *TOGETHER]


def spelled_out(names: Iterable[str]) -> list[str]:
    """The names of single experiments, each once."""
    single = [[one.name for one in TOGETHER[name]] if name in TOGETHER else [name] for name in names]
    return list(dict.fromkeys(name for some in single for name in some))
