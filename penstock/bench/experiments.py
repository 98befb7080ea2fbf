"""All experiments by name: those beside the workloads, and those on adapting, which also have one name together."""

from __future__ import annotations

from collections.abc import Iterable

from penstock.bench.adapt.degrading import DEGRADING
from penstock.bench.adapt.elastic import ELASTIC_SITES
from penstock.bench.adapt.epoch_length import EPOCH_LENGTH
from penstock.bench.adapt.fetching import ADAPT_FETCH
from penstock.bench.adapt.flush import ADAPT_FLUSH
from penstock.bench.adapt.policies import ALL_POLICIES
from penstock.bench.adapt.rotating import ROTATING
from penstock.bench.adapt.rounds import ROUNDS_VARIED
from penstock.bench.adapt.skew import SKEW
from penstock.bench.adapt.skew_sites import SKEW_SITES
from penstock.bench.adapt.slowed import SLOWED
from penstock.bench.adapt.tuning import TUNING
from penstock.bench.also import BESIDE
from penstock.bench.also.experiment import Experiment

ADAPT = "adapt"
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
