"""Schedules of changes while a query runs: groups move, split, merge, are parked and cleaned up, and
the number of sites changes."""

from __future__ import annotations

from random import Random

from penstock.balance.decisions import Change, CleanUp, Merge, Move, Park, Scale, SplitGroup
from penstock.engine.driver.executor import Executor
from penstock.engine.driver.loop import Outcome
from penstock.errors import StorageError
from penstock.events import Event
from penstock.state.directory import Directory
from penstock.storage.faults import InjectedCrash, arm, disarm
from penstock.testing.ways import Way
from tests.support.crashes import Fault, Place, Scenario
from tests.support.looping import looping

MOST_SITES = 8
MOST_DEPTH = 12


def random_change(random: Random, directory: Directory) -> Change:
    """Draw a change; a merge of groups at different sites will be refused."""
    group = random.choice(directory.groups)
    match random.choice(["move", "move", "move", "split", "merge", "scale", "park", "park", "clean up"]):
        case "park":
            return Park(group)
        case "clean up":
            return CleanUp(group)
        case "split" if group.depth < MOST_DEPTH:
            return SplitGroup(group)
        case "merge" if group.depth:
            return Merge(group.parent)
        case "scale":
            return Scale(random.randint(1, MOST_SITES))
        case _:
            return Move(group, directory.home(group), random.randrange(directory.sites))


def random_changes(random: Random, directory: Directory, parks: float) -> list[Change]:
    """Draw a change, after the parking of each group with the probability `parks`."""
    parked: list[Change] = [Park(group) for group in directory.groups if random.random() < parks]
    return [*parked, random_change(random, directory)]


def step_with_changes(
    scenario: Scenario, place: Place, way: Way, executor: Executor, random: Random, parks: float = 0.0
) -> list[Event]:
    """Run to the end with random changes after about every other epoch, and each group parked with the probability
    `parks` then; return the events of the loop."""
    with looping(scenario, place, way, executor) as (loop, told):
        while loop.step() is not Outcome.FINISHED:
            while random.random() < 0.5:
                subquery = random.randrange(len(loop.directories))
                for change in random_changes(random, loop.directories[subquery], parks):
                    loop.change(subquery, change)
    return told


def die_with_changes(
    scenario: Scenario, place: Place, way: Way, executor: Executor, random: Random, fault: Fault, parks: float = 0.0
) -> list[Event] | None:
    """Do the same with an armed fault; return None if the fault was reached."""
    arm(fault.point, fault.nth, fault.action)
    try:
        return step_with_changes(scenario, place, way, executor, random, parks)
    except (InjectedCrash, StorageError):
        return None
    finally:
        disarm()
