"""The handle of a running query."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, TimeoutError
from dataclasses import asdict, replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.api.process_end import stop_at_process_end
from penstock.api.run_state import EventLog, Progress
from penstock.api.until import Until
from penstock.api.waiting import watch
from penstock.balance.intake.pace import Pace
from penstock.connectors.sinks.sink import MemoryResults
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.control.requests import Answer, MoveRequest, RebalanceRequest, Request, ScaleRequest, SplitRequest
from penstock.engine.driver.format_mark import as_moment
from penstock.engine.driver.loop import EpochLoop, Outcome
from penstock.engine.driver.showing import title
from penstock.engine.driver.steering import Steering
from penstock.errors import ConfigError, PenstockError, did_you_mean
from penstock.events import (
    ChangeRefused,
    DirectoryChanged,
    EpochCommitted,
    EpochDropped,
    Event,
    JoinExplodes,
)
from penstock.observe.event_lines import log_end
from penstock.plan.explain.plan import explain
from penstock.state.directory import Group

if TYPE_CHECKING:
    import pandas as pd

_WAIT = 30.0  # seconds to wait for the answer of a run
_NAP = 0.5  # seconds between two looks for a signal


class Run:
    """A running query. It runs in a background thread until its input ends, `until` is reached, or it is stopped."""

    def __init__(
        self,
        loop: EpochLoop,
        event_log: EventLog,
        steering: Steering,
        pace: Pace,
        until: Until,
        results: MemoryResults | None,
        close: Callable[[], None],
        shows_progress: bool = False,
    ) -> None:
        self._loop, self._ears, self._steering, self._pace, self._until, self._results, self._close = (
            loop, event_log, steering, pace, until, results, close,
        )  # fmt: skip
        self._shows_progress = shows_progress
        event_log.listeners.append(steering.observe)
        self._stop = loop.room.stopping
        self._error: BaseException | None = None
        self._warnings: list[str] = []
        self._progress, self._decisions = (
            Progress(epoch=loop.manifest.epoch, disk_limit=loop.disk.limit),
            Counter[str](),
        )
        event_log.listeners.append(self._note)
        # An event rather than the thread: after an interrupted `join`, Python 3.11 reports a live thread as dead.
        self._over = threading.Event()
        self._driver = threading.Thread(target=self._drive, name="penstock-run", daemon=True)
        self._driver.start()
        stop_at_process_end(self)

    # -- inspection ----------------------------------------------------------------------------------------------

    @property
    def progress(self) -> Progress:
        """Return the progress of this run: its state, epoch, row counts and low-water mark."""
        return self._progress

    @property
    def events(self) -> Sequence[Event]:
        """Return the most recent events of the run, oldest first. Per-epoch events are kept for a shorter time than
        decisions and other rare events."""
        return self._ears.events

    @property
    def decisions(self) -> Mapping[str, int]:
        """Count the decisions this run has carried out, by kind ("move", "split", ...), and those that were
        "refused"."""
        return dict(self._decisions)

    @property
    def warnings(self) -> Sequence[str]:
        """Return the warnings of this run, oldest first."""
        return tuple(self._warnings)

    @property
    def checkpoint(self) -> Path:
        """Return the folder of the checkpoint."""
        return self._loop.checkpoint.root

    @property
    def late(self) -> pa.Table:
        """Return the late rows, with all their columns and what each was too late for. For a query with several sources
        use `late_of`."""
        sources = self._loop.query.sources
        if len(sources) > 1:
            names = ", ".join(f"`{source.name}`" for source in sources)
            raise PenstockError("this query has several sources", detail=names, hint="use late_of(name)")
        return self.late_of(sources[0].name)

    def late_of(self, source: str) -> pa.Table:
        """Return the late rows of the source named `source`."""
        names = [known.name for known in self._loop.query.sources]
        if source not in names:
            raise PenstockError(f"this query has no source `{source}`", hint=did_you_mean(source, names))
        place = names.index(source)
        return self._published(self._loop.outputs.late[place], self._loop.query.program.inputs[place].late_schema)

    @property
    def bad(self) -> pa.Table:
        """Return the malformed rows that were diverted, with file, line and reason."""
        return self._published("bad", BAD_ROWS_SCHEMA)

    def folder(self, output: str) -> Path:
        """Return the folder of the published "late" or "bad" rows, which are Parquet files."""
        return self._loop.outputs.diverted_folder(output)

    def explain(self) -> str:
        """Return the plan of the query as text."""
        return explain(self._loop.query)

    def result(self) -> pa.Table:
        """Return the rows that an in-memory sink has collected so far."""
        if self._results is None:
            raise PenstockError("this query does not keep its results in memory", hint="use .to.memory()")
        return self._results.table()

    def pandas(self) -> pd.DataFrame:
        """Return the rows that an in-memory sink has collected so far, as a pandas DataFrame."""
        return self.result().to_pandas()

    # -- steering ------------------------------------------------------------------------------------------------

    def scale(self, sites: int, *, subquery: int | None = None, timeout: float = _WAIT) -> str:
        """Change the number of sites of the query, or of one `subquery`. Like `move`, `split` and `rebalance`, wait up
        to `timeout` seconds for the run to answer and return its answer; raise PenstockError if the run refuses."""
        return self._requests().scale(sites, subquery, timeout)

    def move(self, group: str | Group, site: int, *, subquery: int | None = None, timeout: float = _WAIT) -> str:
        """Move a partition group to another site. Policies leave it there until `rebalance`."""
        return self._requests().move(group, site, subquery, timeout)

    def split(self, group: str | Group, *, subquery: int | None = None, timeout: float = _WAIT) -> str:
        """Split a partition group into two at the same site."""
        return self._requests().split(group, subquery, timeout)

    def rebalance(self, *, subquery: int | None = None, timeout: float = _WAIT) -> str:
        """Balance the load of the sites now, whichever policy is in use."""
        return self._requests().rebalance(subquery, timeout)

    def groups(self, subquery: int = 0) -> dict[str, int]:
        """Return the site of each partition group of a subquery from the next epoch on, by the bits of the group."""
        directories = self._loop.directories
        if not 0 <= subquery < len(directories):
            raise ConfigError(
                f"there is no subquery {subquery}",
                detail=f"this query has {len(directories)} subqueries, counted from 0",
                hint="run.explain() shows them",
            )
        directory = directories[subquery]
        return {str(group): site for group, site in zip(directory.groups, directory.homes, strict=True)}

    def _requests(self) -> _ChangeRequests:
        """Return the object that sends requests to this run; raise if called from the thread of the run."""
        if threading.current_thread() is self._driver:
            raise PenstockError(
                "a run cannot wait for itself",
                detail="this is called from within the run, by a callback or a listener",
                hint="call it from another thread",
            )
        names = tuple(title(subquery) for subquery in self._loop.query.program.subqueries)
        return _ChangeRequests(self._steering.ask, names)

    # -- the end -------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None) -> Run:
        """Wait until the run ends, or at most `timeout` seconds, and return the run; raise the error that ended it."""
        began = time.monotonic()
        if self._shows_progress:
            watch(self, timeout)
        self.join(inf if timeout is None else began + timeout - time.monotonic())
        if self._error is not None:
            raise self._error
        return self

    def stop(self, now: bool = False) -> Run:
        """Finish the current epoch and stop. With `now`, abandon the current epoch; the next run repeats it, so no rows
        are lost."""
        self.request_stop(now)
        return self.wait()

    def request_stop(self, now: bool = False) -> None:
        """Request a stop as `stop` does, without waiting. For signal handlers and screens."""
        self._stop.set()
        if now:
            self._loop.abandon()

    @property
    def running(self) -> bool:
        """Return whether the run has not ended yet."""
        return not self._over.is_set()

    def join(self, timeout: float) -> None:
        """Wait at most `timeout` seconds for the run to end; do not raise its error. Wakes up now and then: if another
        thread gets the signal of a Ctrl-C, Python raises it here only when this thread runs."""
        until = time.monotonic() + timeout
        while not self._over.wait(max(0.0, min(_NAP, until - time.monotonic()))) and time.monotonic() < until:
            pass

    # -- the thread ----------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        """Run epochs until the end, and release all resources."""
        try:
            while not self._stop.is_set() and not self._until.reached(self._progress):
                began = time.monotonic()
                self._steering.attend()
                outcome = self._loop.step()
                if outcome is Outcome.FINISHED:
                    break
                self._rest(outcome, began)
            self._end("finished" if self._loop.manifest.finished else "stopped")
        except BaseException as error:  # raised by wait()
            self._end("stopped" if self._stop.is_set() else "failed")
            unfinished = self._loop.abandoned or self._loop.room.given_up
            self._error = None if self._stop.is_set() and unfinished else error
        finally:
            try:
                log_end(self.checkpoint.name, self._progress.epoch, self._progress.state, self._error)
                self._steering.close()
                self._close()
            finally:
                self._over.set()

    def _rest(self, outcome: Outcome, began: float) -> None:
        """Keep the pace of epochs; with a backlog the next epoch begins at once."""
        if outcome is Outcome.IDLE or not self._progress.waiting:
            self._stop.wait(self._pace.pause(outcome is not Outcome.IDLE, time.monotonic() - began))

    def _end(self, state: str) -> None:
        self._progress = replace(self._progress, state=state, seconds=self._progress.elapsed)

    def _note(self, event: Event) -> None:
        """Update progress, decisions and warnings from an event."""
        match event:
            case EpochCommitted():
                self._progress = self._progress.plus(
                    event, as_moment(event.low_water_mark, self._loop.query.sources[0])
                )
            case EpochDropped():
                self._progress = replace(self._progress, dropped_epochs=self._progress.dropped_epochs + 1)
            case DirectoryChanged(what=what):
                self._decisions[what.partition(" ")[0]] += 1
            case JoinExplodes():
                self._warnings.append(str(event))
            case ChangeRefused():
                self._decisions["refused"] += 1

    def _published(self, output: str, schema: pa.Schema) -> pa.Table:
        files = sorted(self.folder(output).glob("*.parquet"))
        return pa.concat_tables([schema.empty_table(), *(pq.read_table(f) for f in files)])


class _ChangeRequests:
    """Sends requests to a run through `ask` and waits for the answers. `names` are its subqueries, in order."""

    def __init__(self, ask: Callable[[Request], Future[Answer]], names: tuple[str, ...]) -> None:
        self._ask, self._names = ask, names

    def scale(self, sites: int, subquery: int | None, timeout: float) -> str:
        return self._answered(_checked(ScaleRequest(sites, subquery)), timeout)

    def rebalance(self, subquery: int | None, timeout: float) -> str:
        return self._answered(_checked(RebalanceRequest(subquery)), timeout)

    def move(self, group: str | Group, site: int, subquery: int | None, timeout: float) -> str:
        return self._answered(_checked(MoveRequest(str(group), site, self._one(subquery))), timeout)

    def split(self, group: str | Group, subquery: int | None, timeout: float) -> str:
        return self._answered(_checked(SplitRequest(str(group), self._one(subquery))), timeout)

    def _one(self, subquery: int | None) -> int:
        """Return the number of the subquery; it may be omitted if there is only one."""
        if subquery is not None or len(self._names) == 1:
            return subquery or 0
        known = ", ".join(f"{number}: {name}" for number, name in enumerate(self._names)) or "this query has none"
        raise ConfigError("which subquery has the group?", detail=known, hint="add subquery= and its number")

    def _answered(self, request: Request, timeout: float) -> str:
        """Send a request and return the answer of the run; raise if the run refuses it or does not answer in time."""
        reply = self._ask(request)
        try:
            answer = reply.result(timeout)
        except TimeoutError:
            raise _no_answer(timeout, withdrawn=reply.cancel()) from None
        if answer.why_not is not None:
            hint = answer.detail or "see run.progress, run.groups() and run.explain()"
            raise PenstockError("the run refused the request", detail=answer.why_not, hint=hint)
        return answer.detail or "done"


def _checked(request: Request) -> Request:
    """Check the values of a request before it is sent to the run."""
    try:
        return msgspec.convert(asdict(request), type(request))
    except msgspec.ValidationError as error:
        raise ConfigError(
            "the request is not valid",
            detail=str(error),
            hint="sites and subqueries are whole numbers; a group is written as its bits, as in run.groups()",
        ) from error


def _no_answer(timeout: float, withdrawn: bool) -> PenstockError:
    """Return the error for a request without an answer; `withdrawn` requests will not be carried out."""
    if withdrawn:
        return PenstockError(
            f"nothing was done: the run did not answer in {timeout:g} s",
            detail="the request is withdrawn",
            hint="try again, or pass a longer timeout= if epochs are long",
        )
    return PenstockError(
        f"the outcome is not known yet: the run did not answer in {timeout:g} s",
        detail="the run has received the request",
        hint="see run.events, or pass a longer timeout= if epochs are long",
    )
