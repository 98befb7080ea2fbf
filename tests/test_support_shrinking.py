"""A trial that fails becomes as small as its fault allows."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa

import penstock as ps
from penstock.plan.logical import Distinct, Join, Node, Source
from penstock.testing import cut
from penstock.testing.source_rows import nodes_of, sources_of, tables_of
from penstock.testing.ways import Way, random_way
from tests.support.fuzz import main
from tests.support.queries.data import SECOND, rows_from
from tests.support.trials.shrink import shrunk, simpler
from tests.support.trials.text import node_text, trial_text
from tests.support.trials.trial import Trial, random_trial

WAY = Way(sites=7, groups_per_site=2, items=1, item_rows=3, rows_per_epoch=7, hash_bits=8)


def a_trial() -> Trial:
    random = Random("a trial")
    a, b = (ps.read.batches(cut(random, rows_from(random, 60, 0, SECOND)), time="ts", name=name) for name in "ab")
    assert 3 in rows(b.node).column("i").to_pylist()
    joined = a.where(ps.col("i") > -9).join(b.distinct(), "k", within="1s")
    return Trial(joined.select("ts", "k").in_order().node, (WAY, replace(WAY, sites=3)), order="in")


def rows(node: Node, name: str = "b") -> pa.Table:
    return tables_of(node).get(name, pa.table({}))


def test_what_does_not_matter_is_left_out() -> None:
    def fails(trial: Trial) -> bool:
        """The fault: some rows of b that are made distinct have i = 3."""
        found = any(isinstance(node, Distinct) for node in nodes_of(trial.node))
        return found and 3 in rows(trial.node).column("i").to_pylist()

    small = shrunk(a_trial(), fails, most_tries=2000)
    assert [type(node) for node in nodes_of(small.node)] == [Distinct, Source]
    assert rows(small.node).column("i").to_pylist() == [3]
    assert small.ways == (Way(1, 1, None, 1_000_000, 1_000_000, 64),)
    assert (small.order, small.grid) == ("any", "1x1")
    assert len(sources_of(small.node)["b"].connector.batches) == 1  # type: ignore[attr-defined]


def test_nodes_between_others_are_left_out() -> None:
    def fails(trial: Trial) -> bool:
        return isinstance(trial.node, Join)

    parts = [type(node).__name__ for node in nodes_of(shrunk(a_trial(), fails).node)]
    assert parts == ["Join", "Source", "Source"]


def test_the_number_of_tries_is_bounded() -> None:
    tried: list[Trial] = []

    def fails(trial: Trial) -> bool:
        tried.append(trial)
        return False

    assert shrunk(a_trial(), fails, most_tries=5) == a_trial()
    assert len(tried) == 5


def test_every_simpler_trial_is_a_query() -> None:
    for trial in list(simpler(a_trial()))[:60]:
        assert ps.Stream(trial.node).schema.names


def test_a_trial_reads_like_a_case() -> None:
    trial = a_trial()
    written = trial_text(trial, "a title", "1 row, expected 2")
    titles = [line for line in written.splitlines() if line.startswith(("===", "---"))]
    assert titles == ["=== a title", "--- query", "--- plan", "--- ways", "--- input", "--- difference"]
    assert node_text(trial.node).splitlines()[2].startswith("    Join(kind='inner', keys=((k), (k)), ")
    assert written.count("\nbatch ") == sum(len(s.connector.batches) for s in sources_of(trial.node).values())  # type: ignore[attr-defined]


def test_a_seed_gives_the_same_trial_again() -> None:
    first, second = (random_trial(Random("again")) for _ in range(2))
    assert trial_text(first, "", "") == trial_text(second, "", "")
    assert random_way(Random(1)) == random_way(Random(1))


def test_the_command_runs_one_case() -> None:
    assert main(["--seed", "7", "--case", "3"]) == 0
