"""Drive the epoch loop of a scenario step by step from a test, with any executor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from penstock.checkpoint.store import Checkpoint
from penstock.clock import SYSTEM_CLOCK, Clock
from penstock.engine.driver.executor import Executor
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.recovery import recover
from penstock.events import Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions
from penstock.settings import Settings
from penstock.testing.ways import Way
from tests.support.crashes import Place, Scenario, forget_runs


@contextmanager
def looping(
    scenario: Scenario, place: Place, way: Way, executor: Executor, clock: Clock = SYSTEM_CLOCK, **options: object
) -> Iterator[tuple[EpochLoop, list[Event]]]:
    """Open a loop over the scenario; yield it with the list of its events."""
    told: list[Event] = []
    forget_runs(place)
    settings = Settings(master="inline", on_bad_row="divert").with_options(
        **scenario.settings, **way.settings(), **options
    )
    checkpoint = Checkpoint.open(place.checkpoint)
    try:
        query = compile_query(scenario.into(place).sink, CompileOptions.of(settings))
        yield EpochLoop(recover(query, checkpoint, settings, told.append), executor, told.append, clock), told
    finally:
        checkpoint.close()


def step_to_end(scenario: Scenario, place: Place, way: Way, executor: Executor) -> list[Event]:
    """Run to the end and return the events of the loop."""
    with looping(scenario, place, way, executor) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            pass
    return told
