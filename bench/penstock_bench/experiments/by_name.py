"""All experiments by name: those beside the workloads, and those on adapting, which also have one name together."""

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
from penstock_bench.peers.overflow_peers import OVERFLOW_PEERS

ADAPT = "adapt"
BESIDE = (EPOCH_COST, SLIDE_COST, EXPIRY, LATENCY, WIDE, ADAPTER, JOIN_MEMORY, OVERFLOW_PEERS)
ADAPTING = (
    SLOWED, DEGRADING, ROUNDS_VARIED, ROTATING, SKEW, SKEW_SITES, ELASTIC_SITES, ADAPT_FETCH, ADAPT_FLUSH,
    TUNING, EPOCH_LENGTH, ALL_POLICIES,
)  # fmt: skip

EXPERIMENTS: dict[str, Experiment] = {experiment.name: experiment for experiment in (*BESIDE, *ADAPTING)}


def experiment_names() -> list[str]:
    """All that can be named."""
    return [*EXPERIMENTS, ADAPT]


def spelled_out(names: Iterable[str]) -> list[str]:
    """The names of single experiments, each once."""
    single = [one for name in names for one in ([e.name for e in ADAPTING] if name == ADAPT else [name])]
    return list(dict.fromkeys(single))
