"""Scenarios in which one key has about half of all rows, and schedules in which keys are spread over sites and gathered
while the query runs."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa

from penstock.balance.decisions import Change, Gather, Spread
from penstock.engine.driver.executor import Executor
from penstock.engine.driver.loop import Outcome
from penstock.events import Event
from penstock.kernels.hash import hash_columns
from penstock.state.directory import Directory
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, disorderly_source
from tests.support.looping import looping
from tests.support.queries.data import SCHEMA, random_grain, random_origin, rows_from
from tests.support.queries.operators import OperatorQuery
from tests.support.schedules import random_change

HOT = 7  # the key of about half of the rows


def skewed_scenario(random: Random, query: OperatorQuery, batches: int = 6, **settings: Any) -> Scenario:
    """Draw a query over two sources, each with a hot key."""
    origin, grain, sources = random_origin(random), random_grain(random), []
    for name in "ab":
        rows = _skewed(random, rows_from(random, random.choice([24, 40]), origin, grain))
        sources.append(disorderly_source(random, rows, random.choice([batches, batches - 2]), name))
    return Scenario(query(*sources), settings)


def _skewed(random: Random, rows: pa.Table) -> pa.Table:
    keys = [HOT if random.random() < 0.5 else key for key in rows.column("k").to_pylist()]
    place = SCHEMA.get_field_index("k")
    return rows.set_column(place, SCHEMA.field(place), pa.array(keys, SCHEMA.field(place).type))


def hash_of(key: int | None, hash_bits: int) -> int:
    """Return the hash of a key."""
    return int(hash_columns([pa.array([key], SCHEMA.field("k").type)], hash_bits)[0])


def random_change_of_keys(random: Random, directory: Directory, ports: int, key: int | None, hash_bits: int) -> Change:
    """Draw a change: spread `key` over some sites, or gather a key that is spread."""
    if directory.spread and random.random() < 0.5:
        return Gather(random.choice(directory.spread).hash)
    count = random.randint(min(2, directory.sites), directory.sites)
    sites = tuple(random.sample(range(directory.sites), count))
    return Spread(hash_of(key, hash_bits), random.randrange(ports), sites)


def step_with_spreading(
    scenario: Scenario, place: Place, way: Way, executor: Executor, random: Random, chance: float = 0.75
) -> list[Event]:
    """Run to the end with random changes of keys, often the hot one, and of groups; return the events of the loop."""
    keys = [key for batch in scenario.batches for key in batch.column("k").to_pylist()]
    with looping(scenario, place, way, executor) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            while random.random() < chance:
                number = random.randrange(len(loop.directories))
                directory, ports = loop.directories[number], loop.query.program.subqueries[number].operator.ports
                of_keys = random_change_of_keys(random, directory, ports, random.choice(keys), way.hash_bits)
                loop.change(number, of_keys if random.random() < 0.85 else random_change(random, directory))
    return told
