"""Epochs on a pool, with workers that are threads of this process: what they are asked, and what becomes of their loss.

That Spark hosts a pool, and that it steps aside, is tested with Spark.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest

from penstock.engine.driver.executor import InlineExecutor
from penstock.engine.driver.loop import Outcome
from penstock.engine.wire.blob import Blob, Header
from penstock.engine.wire.job import EpochJob, Report, RouteReport, SiteResult, ToSite
from penstock.errors import PenstockError
from penstock.events import DirectoryChanged, EpochCommitted, EpochDropped, WorkerDied
from penstock.settings import Settings
from penstock.spark.choice import PooledExecutor
from penstock.spark.workers import transport
from penstock.spark.workers.pool import WorkerLost, WorkerPool
from penstock.spark.workers.scheduler import EpochScheduler
from penstock.spark.workers.transport import BlobArena
from penstock.spark.workers.worker import (
    SiteRequest,
    TaskAnswer,
    Worker,
    WorkerRequest,
    _answer_all,
    _DriverConnection,
)
from penstock.testing.ways import Way, random_way
from tests.support.crashes import (
    Place,
    Scenario,
    assert_exact,
    operator_scenario,
    random_scenario,
)
from tests.support.looping import looping, step_to_end
from tests.support.mixing import MixingExecutor
from tests.support.queries.data import SECOND
from tests.support.queries.operators import operator_queries
from tests.support.schedules import step_with_changes

pytestmark = pytest.mark.skipif(not transport.available(), reason="this system has no files in memory")

Answer = Callable[[WorkerRequest], TaskAnswer | None]
StartPool = Callable[..., "Threads"]
ATTEMPTS = Settings().attempts_per_epoch


class Threads:
    """A pool provider whose workers are threads. `dies(n)`: the worker that gets the n-th request hangs up."""

    def __init__(self, workers: int, dies: Callable[[int], bool] = lambda number: False) -> None:
        self._workers, self._dies = workers, dies
        self._scheduler: EpochScheduler | None = None
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.started = self.requests = self.ahead = 0
        self.reads_ahead = True

    @contextmanager
    def lease(self) -> Iterator[EpochScheduler | None]:
        with self._lock:
            if self._scheduler is None and self._workers:
                self.started += 1
                lines = [self._worker(number) for number in range(self._workers)]
                self._scheduler = EpochScheduler(WorkerPool(lines, "pool", threading.current_thread()))
            yield self._scheduler
            self.ahead += self._scheduler is not None and self._scheduler._ahead is not None

    def wanted(self) -> bool:
        return not self.reads_ahead

    def lost(self, pool: WorkerPool) -> None:
        pool.stop()
        self._scheduler = None

    def _worker(self, number: int) -> Connection:
        ours, theirs = Pipe()
        worker = Worker(number, self._workers)
        self._threads.append(threading.Thread(target=self._serve, args=(theirs, worker), daemon=True))
        self._threads[-1].start()
        return ours

    def close(self) -> None:
        if self._scheduler is not None:
            self._scheduler.pool.stop()
        for thread in self._threads:
            thread.join(10)

    def _serve(self, line: Connection, worker: Worker) -> None:
        answer = worker.answer
        worker.answer = lambda request: self._counted(line, answer, request)  # type: ignore[method-assign]
        with pytest.raises((EOFError, OSError)):
            _answer_all(line, worker)

    def _counted(self, line: Connection, answer: Answer, request: WorkerRequest) -> TaskAnswer | None:
        self.requests += 1
        if self._dies(self.requests):
            line.close()
        return answer(request)


@pytest.fixture
def start_pool() -> Iterator[StartPool]:
    """Makes provider, whose threads end with the test."""
    made: list[Threads] = []

    def make(workers: int, dies: Callable[[int], bool] = lambda number: False) -> Threads:
        made.append(Threads(workers, dies))
        return made[-1]

    yield make
    for provider in made:
        provider.close()


class NeverRun:
    """Jobs that are not asked for, as long as there is a pool."""

    def run(self, job: EpochJob, routes: object, following: object = None) -> list[Report]:
        raise AssertionError("the pool should have run this epoch")

    def cancel(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("case", range(8))
def test_a_pool_of_any_size_gives_the_batch_answer(
    case: int, random: Random, place: Place, start_pool: StartPool
) -> None:
    scenario = random_scenario(random, batches=4)
    way, workers = Way(sites=random.choice([1, 2, 3, 7])), random.choice([1, 2, 3])
    step_to_end(scenario, place, way, PooledExecutor(start_pool(workers), NeverRun()))
    assert_exact(scenario, place, f"{workers} workers, {way}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("query", ["full join with a condition", "left join"])
def test_joins(query: str, random: Random, place: Place, start_pool: StartPool) -> None:
    scenario = operator_scenario(random, operator_queries(SECOND)[query])
    step_to_end(scenario, place, Way(sites=3), PooledExecutor(start_pool(2), NeverRun()))
    assert_exact(scenario, place, scenario.stream.explain())


@pytest.mark.parametrize("case", range(8))
def test_splits_of_the_next_epoch_are_read_before_its_turn(
    case: int, random: Random, place: Place, start_pool: StartPool
) -> None:
    scenario, provider = random_scenario(random, batches=6), start_pool(2)
    way = replace(random_way(random), rows_per_epoch=random.choice([1, 7, 20]))
    told = step_to_end(scenario, place, way, PooledExecutor(provider, NeverRun()))
    epochs = [event for event in told if isinstance(event, EpochCommitted)]
    assert 0 < provider.ahead <= sum(event.waiting > 0 for event in epochs)
    assert_exact(scenario, place, f"{way}\n{scenario.stream.explain()}")


@pytest.mark.parametrize("case", range(8))
def test_groups_move_while_splits_are_read_ahead(
    case: int, random: Random, tmp_path: Path, start_pool: StartPool
) -> None:
    """Nothing is read ahead while a spread key is to be gathered or a grid is to change: then another schedule is drawn
    as well."""
    provider = start_pool(2)
    for number in range(6):
        scenario, place = random_scenario(random, batches=6), Place(tmp_path / str(number))
        way = replace(random_way(random), rows_per_epoch=random.choice([7, 20]))
        told = step_with_changes(scenario, place, way, PooledExecutor(provider, NeverRun()), random)
        changes = [event.what for event in told if isinstance(event, DirectoryChanged)]
        assert_exact(scenario, place, f"{way}\n{changes}\n{scenario.stream.explain()}")
        if provider.ahead:
            return
    pytest.fail("nothing was read ahead")


def test_queries_take_turns_and_what_they_read_ahead_is_void(
    random: Random, tmp_path: Path, start_pool: StartPool
) -> None:
    provider, way = start_pool(2), Way(sites=2, rows_per_epoch=20)
    queries = [(random_scenario(random, batches=6), Place(tmp_path / str(number))) for number in range(3)]
    with ThreadPoolExecutor(len(queries)) as pool:
        runs = [
            pool.submit(step_to_end, scenario, place, way, PooledExecutor(provider, NeverRun()))
            for scenario, place in queries
        ]
        assert all(run.result() for run in runs)
    assert provider.ahead > 0
    for scenario, place in queries:
        assert_exact(scenario, place, scenario.stream.explain())


@pytest.mark.parametrize("case", range(5))
def test_an_epoch_that_is_run_twice_reads_its_splits_again(
    case: int, random: Random, place: Place, start_pool: StartPool
) -> None:
    scenario, way = random_scenario(random, batches=6), Way(sites=2, rows_per_epoch=20)
    mixing = MixingExecutor(
        PooledExecutor(start_pool(2), NeverRun()), 2, lambda report: isinstance(report, RouteReport)
    )
    told = step_to_end(scenario, place, way, mixing)
    assert sum(isinstance(event, EpochDropped) for event in told) == 2
    assert_exact(scenario, place, scenario.stream.explain())


def test_what_a_worker_leaves_undone_is_done_by_another_pool(
    scenario: Scenario, place: Place, random: Random, start_pool: StartPool
) -> None:
    way = Way(sites=2, rows_per_epoch=random.choice([None, 20]))
    provider = start_pool(2, dies=lambda number: number in deaths)
    deaths = set(random.sample(range(1, 40), ATTEMPTS - 1))
    told = step_to_end(scenario, place, way, PooledExecutor(provider, NeverRun()))
    dropped = [event for event in told if isinstance(event, EpochDropped)]
    assert provider.started > 1, "no worker died"
    assert len(dropped) == provider.started - 1, "an event says so each time"
    assert all("worker" in event.reason for event in dropped)
    assert_exact(scenario, place)


def test_workers_that_die_every_time_end_the_run(scenario: Scenario, place: Place, start_pool: StartPool) -> None:
    provider = start_pool(2, dies=lambda number: True)
    with looping(scenario, place, Way(sites=2), PooledExecutor(provider, NeverRun())) as (loop, told):
        with pytest.raises(PenstockError, match="failed repeatedly") as caught:
            loop.step()
        dropped = [event for event in told if isinstance(event, EpochDropped)]
    assert [(event.epoch, event.attempt) for event in dropped] == [(1, n + 1) for n in range(ATTEMPTS)]
    assert provider.started == ATTEMPTS
    assert "checkpoint is intact" in caught.value.hint


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The first worker that confirms the files of site 0 dies then, and this event says so."""
    died, confirm = threading.Event(), _DriverConnection.confirm

    def confirm_and_die(line: _DriverConnection, site: SiteResult, done: object) -> None:
        confirm(line, site, done)
        if site.report.site == 0 and not died.is_set():
            with socket.socket(fileno=os.dup(line._connection.fileno())) as end:
                end.shutdown(socket.SHUT_RDWR)
            died.set()

    monkeypatch.setattr(_DriverConnection, "confirm", confirm_and_die)
    return died


def test_a_worker_that_dies_before_others_have_confirmed_makes_the_epoch_run_again(
    gone: threading.Event, scenario: Scenario, place: Place, start_pool: StartPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although its own files are durable and confirmed."""
    answer = Worker.answer

    def answer_later(worker: Worker, request: WorkerRequest) -> TaskAnswer | None:
        if isinstance(request, SiteRequest) and request.partition == 1:
            gone.wait(10)
        return answer(worker, request)

    monkeypatch.setattr(Worker, "answer", answer_later)
    told = step_to_end(scenario, place, Way(sites=2), PooledExecutor(start_pool(2), NeverRun()))
    assert gone.is_set()
    assert [event.worker for event in told if isinstance(event, WorkerDied)] == [0]
    assert [(event.epoch, event.attempt) for event in told if isinstance(event, EpochDropped)] == [(1, 1)]
    assert_exact(scenario, place)


def test_a_worker_that_dies_after_the_last_confirmation_costs_the_next_epoch_an_attempt(
    gone: threading.Event, random: Random, place: Place, start_pool: StartPool
) -> None:
    scenario, provider = random_scenario(random, batches=4, levels=1), start_pool(1)
    provider.reads_ahead = False
    with looping(scenario, place, Way(sites=1), PooledExecutor(provider, NeverRun())) as (loop, told):
        loop.step()
        assert gone.wait(10)
        assert loop.manifest.epoch == 1
        assert not [event for event in told if isinstance(event, EpochDropped)]
        while loop.step() is not Outcome.FINISHED:
            pass
    assert [(event.epoch, event.attempt) for event in told if isinstance(event, EpochDropped)] == [(2, 1)]
    assert provider.started == 2
    assert_exact(scenario, place)


def test_one_budget_covers_lost_workers_and_tasks_that_disagree(
    scenario: Scenario, place: Place, start_pool: StartPool
) -> None:
    """Of five attempts, those that a lost worker ends are not repeated by anybody else than the loop."""
    provider = start_pool(2, dies=lambda number: provider.started <= 2)
    mixing = MixingExecutor(PooledExecutor(provider, NeverRun()), 1_000, lambda report: isinstance(report, RouteReport))
    with looping(scenario, place, Way(sites=2), mixing) as (loop, told):
        with pytest.raises(PenstockError, match="could not be run consistently"):
            loop.step()
        dropped = [event for event in told if isinstance(event, EpochDropped)]
    assert [event.attempt for event in dropped] == [1, 2, 3, 4, 5]
    assert ["worker" in event.reason for event in dropped] == [True, True, False, False, False]


def test_without_a_pool_epochs_are_jobs(scenario: Scenario, place: Place, start_pool: StartPool) -> None:
    step_to_end(scenario, place, Way(sites=2), PooledExecutor(start_pool(0), InlineExecutor()))
    assert_exact(scenario, place)


def test_an_error_that_is_not_ours_is_told_with_its_trace(start_pool: StartPool) -> None:
    with start_pool(1).lease() as scheduler:
        assert scheduler is not None
        scheduler.pool.ask_raw(0, b"no request at all")
        with pytest.raises(WorkerLost, match="Traceback"):
            list(scheduler.pool.answers())


def test_an_epoch_that_is_cancelled_is_given_up_and_not_run_again(
    scenario: Scenario, place: Place, start_pool: StartPool
) -> None:
    provider = start_pool(2, dies=lambda number: number == 5 and executor.cancel() is None)
    executor = PooledExecutor(provider, NeverRun())
    with pytest.raises(PenstockError, match="was cancelled"):
        step_to_end(scenario, place, Way(sites=2), executor)
    assert provider.started == 1


def test_blobs_are_read_without_a_copy_also_when_their_arena_is_closed() -> None:
    arena, rows = BlobArena(), pa.table({"n": range(5000), "text": [f"row {n}" for n in range(5000)]})
    parts = [rows.slice(0, 1), rows.slice(7, 4000), None, rows]
    packed = [arena.pack(ToSite(0, n), Blob(Header("split-0", f"attempt {n}"), part)) for n, part in enumerate(parts)]
    allocated = pa.total_allocated_bytes()
    opened = [ref.open() for ref in packed]
    arena.close()
    assert pa.total_allocated_bytes() - allocated < rows.nbytes / 10
    assert [blob.header.attempt for blob in opened] == [f"attempt {n}" for n in range(4)]
    assert [blob.rows for blob in opened] == parts
