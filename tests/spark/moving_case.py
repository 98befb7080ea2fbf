"""Queries on Spark, in processes of their own, that are scaled and moved about from outside while these processes die.

Whatever dies, the newest manifest says where everything is: every hash has one home, and every row of state is there.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from math import inf
from pathlib import Path
from random import Random

import psutil
from moving_driver import BATCHES, Orders, scenario_of

from penstock.checkpoint.manifest import epochs, read
from penstock.cli.asking import ask, read_status
from penstock.cli.control import control_folder
from penstock.control.folder import FOLDER, STATUS
from penstock.control.requests import MoveRequest, Request, ScaleRequest
from penstock.errors import CheckpointError
from penstock.state.hash_ranges import HASH_END
from penstock.state.model import Manifest, SourceState, SubqueryState
from tests.support.crashes import assert_exact, assert_homes

PATIENCE = 180.0  # seconds that anything may take before it counts as stuck
EXECUTOR = "CoarseGrainedExecutorBackend"


class Driver:
    """A driver process and all that it has started: they are a process group of their own."""

    def __init__(self, orders: Orders, log: Path) -> None:
        self._orders, self._log, self._began = orders, log, time.time()
        with log.open("ab") as file:
            environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
            self._process = subprocess.Popen(
                orders.command, env=environment, stdout=file, stderr=file, start_new_session=True
            )

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def wants_statistics(self) -> bool:
        """Whether the run has begun to look for requests. A status may also be one that an earlier run has left."""
        checkpoint = self._orders.place.checkpoint
        if not self.alive or not (checkpoint / FOLDER / STATUS).exists():
            return False
        with control_folder(checkpoint) as folder:
            status = read_status(folder)
        return status is not None and status.began >= self._began

    def ask(self, request: Request) -> None:
        with control_folder(self._orders.place.checkpoint) as folder:
            ask(folder, request)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def kill_an_executor(self, random: Random) -> bool:
        """Whether there was one."""
        executors = [p for p in psutil.Process(self._process.pid).children(recursive=True) if EXECUTOR in _command(p)]
        if executors:
            random.choice(sorted(executors, key=lambda p: p.pid)).kill()
        return bool(executors)

    def ended(self) -> int:
        return self._process.wait(PATIENCE)

    def clear_away(self) -> None:
        """It, and what may be left of its JVM and its workers."""
        with suppress(ProcessLookupError):  # all have gone
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE)

    def last_words(self) -> str:
        return f"ended with {self._process.poll()}\n{self._log.read_text(errors='replace')[-3000:]}"


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


class Moving:
    """A query that is to be moved about. Invariant: `driver` is the last one that was started, alive or not."""

    def __init__(self, orders: Orders, random: Random) -> None:
        self.orders, self._random, self._drivers = orders, random, list[Driver]()
        self.story: list[str] = []
        Path(orders.root).mkdir(parents=True)

    @property
    def driver(self) -> Driver:
        return self._drivers[-1]

    @property
    def running(self) -> bool:
        return bool(self._drivers) and self.driver.alive

    @property
    def begun(self) -> bool:
        """Whether there is a manifest."""
        return (folder := self.orders.place.checkpoint / "manifests").exists() and bool(epochs(folder))

    @property
    def manifest(self) -> Manifest:
        """Only the newest is read: a driver may be deleting the oldest."""
        folder = self.orders.place.checkpoint / "manifests"
        return read(folder, epochs(folder)[-1])

    @property
    def sites(self) -> set[int]:
        """Of all subqueries, as the newest manifest has it."""
        return {state.directory.sites for state in self.manifest.subqueries}

    def start(self, fault: str | None = None) -> Driver:
        self._drivers.append(Driver(replace(self.orders, fault=fault), Path(self.orders.root) / "log"))
        return self.driver

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that only a living driver brings about."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.driver.alive or condition(), self.told(f"the driver ended before it {what}")
            assert time.monotonic() < deadline, self.told(f"it never {what}")
            time.sleep(0.02)

    def listening(self) -> Driver:
        """The driver, started anew where the last one has died."""
        if not self.running:
            self.start()
        self.until(lambda: self.driver.wants_statistics, "began to listen")
        return self.driver

    def idle(self) -> Driver:
        """The driver, once it has read all that the gate let through: a change is then the next thing that it does,
        where otherwise it may have begun to read an epoch under the old directory."""
        driver, open_ = self.listening(), self.orders.gate.batches
        self.until(lambda: all(_read(source) >= open_ for source in self.manifest.sources), "read what there is")
        return driver

    def some_move(self) -> MoveRequest:
        """Of any group to any site, as things are now; it may be refused by the time it is read."""
        number = self._random.randrange(len(self.manifest.subqueries))
        directory = self.manifest.subqueries[number].directory
        return MoveRequest(str(self._random.choice(directory.groups)), self._random.randrange(directory.sites), number)

    def died(self, how: str) -> None:
        """After a death: all is in one place."""
        self.story.append(f"{how}, at epoch {self.manifest.epoch} with {sorted(self.sites)} sites")
        for state in self.manifest.subqueries:
            assert_one_place(state, self.orders.place.checkpoint / "runs")

    def finish(self) -> None:
        """Let all rows through, and compare what is published with the batch answer."""
        self.orders.gate.let_all_through()
        if not self.running:
            self.start()
        assert self.driver.ended() == 0, self.told("the last driver failed")
        assert self.manifest.finished
        scenario = scenario_of(self.orders.seed)
        assert_exact(scenario, self.orders.place, self.told(scenario.stream.explain()))

    def told(self, what: str) -> str:
        words = self.driver.last_words() if self._drivers else ""
        return "\n".join([what, str(self.orders), *self.story, words])

    def clear_away(self) -> None:
        for driver in self._drivers:
            driver.clear_away()


def _read(source: SourceState) -> float:
    """How many batches of a source are read."""
    return inf if source.ended else (source.progress or {}).get("batches", 0)


@contextmanager
def moving(orders: Orders, random: Random) -> Iterator[Moving]:
    case = Moving(orders, random)
    try:
        yield case
    finally:
        case.clear_away()


def assert_one_place(state: SubqueryState, runs: Path) -> None:
    """Every hash has one home, every row of state is at the home of its hash, and nowhere else."""
    ranges = [part for _, part in state.directory.home_ranges()]
    assert (ranges[0].low, ranges[-1].high) == (0, HASH_END)
    assert all(a.high == b.low for a, b in pairwise(ranges)), "a hash has no home, or two"
    assert_homes(state, runs)
    for kind in ("slices", "pending", "held"):
        slices = sorted((p.run.name, p.range) for site in state.sites for p in getattr(site, kind))
        twice = [a for a, b in pairwise(slices) if a[0] == b[0] and a[1].high > b[1].low]
        assert not twice, f"rows at two places: {twice}"


class Chaos:
    """One round: the query is scaled step by step, and groups of it are moved, while something dies now and then."""

    def __init__(self, case: Moving, random: Random, most_deaths: int) -> None:
        self._case, self._random, self._left, self.deaths = case, random, most_deaths, 0

    def run(self, scales: tuple[int, ...]) -> None:
        for step, sites in enumerate(scales):
            self._case.orders.gate.let_through((step + 1) * BATCHES // (len(scales) + 1))
            while not self._scaled(sites):
                pass
            self._case.story.append(f"{sites} sites")
        self._case.finish()

    def _scaled(self, sites: int) -> bool:
        """Ask for it, and let something die or not; gives whether it has come true."""
        driver = self._begun()
        if driver is None:
            return False
        try:
            driver.ask(ScaleRequest(sites))
            for _ in range(self._random.randrange(4)):
                driver.ask(self._case.some_move())
        except CheckpointError as gone:
            self._case.story.append(str(gone))
        if self._left and self._random.random() < 0.5:
            self._strike(driver)
        else:
            self._case.until(lambda: self._case.sites == {sites}, f"had {sites} sites")
        return self._case.sites == {sites}

    def _begun(self) -> Driver | None:
        """A driver that listens; None where the one that was to be started died on the way."""
        if self._case.running or not self._left or self._random.random() < 0.8:
            return self._case.listening()
        driver = self._case.start()
        time.sleep(self._random.uniform(0, 8))
        self._end(driver, "killed while it started")
        return None

    def _strike(self, driver: Driver) -> None:
        time.sleep(self._random.choice([0.0, self._random.uniform(0, 0.3), self._random.uniform(0, 3.0)]))
        if self._case.orders.master.startswith("local-cluster") and self._random.random() < 0.6:
            self._left, self.deaths = self._left - 1, self.deaths + 1
            found = driver.kill_an_executor(self._random)
            self._case.story.append("an executor was killed" if found else "no executor was there")
            return
        self._end(driver, "killed")

    def _end(self, driver: Driver, how: str) -> None:
        self._left, self.deaths = self._left - 1, self.deaths + 1
        driver.kill()
        if self._case.begun:
            self._case.died(how)
