"""A driver process whose query is moved about from outside while it is killed: see `moving_case`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random

from penstock.events import DirectoryChanged, Event
from penstock.storage.faults import FaultPoint, arm
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, launch, operator_scenario, random_scenario
from tests.support.gate import Gate, gated
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries

BATCHES = 12


@dataclass(frozen=True)
class Orders:
    """What a driver is to run, and where. `fault`: the point at which it dies in the first epoch after a change."""

    seed: str
    root: str
    master: str
    exchange: str = "direct"
    items: int | None = None
    fault: str | None = None

    @property
    def place(self) -> Place:
        return Place(Path(self.root))

    @property
    def gate(self) -> Gate:
        return Gate(Path(self.root) / "gate")

    @property
    def command(self) -> list[str]:
        return [sys.executable, __file__, json.dumps(asdict(self))]


def scenario_of(seed: str) -> Scenario:
    """Aggregates half of the time, and otherwise any operator."""
    random = Random(seed)
    if random.random() < 0.5:
        return random_scenario(random, batches=BATCHES)
    queries = operator_queries(SECOND)
    return operator_scenario(random, queries[random.choice(sorted(queries))], batches=BATCHES)


def main(orders: Orders) -> None:
    def hear(event: Event) -> None:
        if orders.fault is not None and isinstance(event, DirectoryChanged):
            arm(FaultPoint(orders.fault), 1, "kill")

    scenario = gated(scenario_of(orders.seed), orders.gate)
    way = Way(sites=2, items=orders.items)
    options = {"master": orders.master, "exchange": orders.exchange, "epoch": "10ms"}
    run = launch(scenario, orders.place, way, on_event=hear, **options)
    run.wait()
    assert run.progress.state == "finished"


if __name__ == "__main__":
    main(Orders(**json.loads(sys.argv[1])))
