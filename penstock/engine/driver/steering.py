"""Control of a running query from outside: carry out requests, answer them, and publish the status of the query."""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from threading import Lock

from penstock.balance.decisions import Change, Move, SplitGroup
from penstock.balance.rules import MOST_DEPTH
from penstock.clock import Clock
from penstock.control.requests import (
    Answer,
    Control,
    MoveRequest,
    RebalanceRequest,
    Request,
    ScaleRequest,
    SplitRequest,
)
from penstock.control.status import DecisionStatus, Status, SubqueryStatus
from penstock.engine.driver.format_mark import as_moment
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.showing import subquery_status, untold_status
from penstock.events import ChangeMeasured, ChangeRefused, DirectoryChanged, EpochCommitted, Event, Rebalanced
from penstock.plan.program import Subquery
from penstock.state.directory import Directory, Group

_log = logging.getLogger(__name__)
KEPT_DECISIONS = 50
_FROM_WHEN = "from the next epoch that is not routed yet"
_ENDED = "the run ended before the next epoch"
_NO_GROUP = Answer("there is no such group", "`penstock top --json` lists the groups by their bits")
LATELY = 5.0  # seconds over which rates are averaged
STILL_TRUE = 1.0  # seconds for which statistics of groups are shown, if epochs are short
MOST_WAIT = 10.0  # seconds until a request is answered; less than the time for which the client waits


class Steering:
    """Handles requests and the status of a run. Used only by the thread that runs the loop, except `ask`. Its state
    need not survive a crash.

    Requests come from the control folder, and from other threads of this process: `_here` has the futures on which
    these wait, by the name of the request; None after the run has ended.
    """

    def __init__(self, loop: EpochLoop, clock: Clock) -> None:
        self._loop, self._clock, self._began = loop, clock, clock.time()
        self._control = Control(loop.checkpoint.root, self._began, clock.time)
        self._decisions: deque[DecisionStatus] = deque(maxlen=KEPT_DECISIONS)
        self._committed: deque[tuple[float, EpochCommitted]] = deque()
        self._asked: list[Asked] = []
        self._lock, self._new = Lock(), list[Request]()
        self._here: dict[str, Future[Answer]] | None = {}
        self._figures: int | None = None  # epoch of the newest statistics
        self._figures_seen = float("-inf")  # when they came

    def observe(self, event: Event) -> None:
        """Record an event that the status shows or a request waits for."""
        match event:
            case EpochCommitted():
                self._committed.append((self._clock.time(), event))
            case DirectoryChanged(epoch, subquery, what, why, gain):
                self._decisions.append(DecisionStatus(epoch, subquery, what, why, gain))
            case ChangeRefused(epoch, subquery, what, why, rule):
                self._decisions.append(DecisionStatus(epoch, subquery, what, why, refused=rule))
            case ChangeMeasured(epoch, subquery, predicted, measured):
                why = "the decisions of the previous round"
                self._decisions.append(DecisionStatus(epoch, subquery, "measured", why, predicted, measured))
            case Rebalanced(epoch, subquery, changes, refused):
                self._asked = [asked.after(event) for asked in self._asked]
                if not changes and not refused:
                    self._decisions.append(DecisionStatus(epoch, subquery, "rebalance", came_of([event])))

    def ask(self, request: Request) -> Future[Answer]:
        """Queue a request for the thread that runs the loop. The future can be cancelled until that thread takes the
        request."""
        with self._lock:
            reply = Future[Answer]()
            if self._here is None:
                reply.set_result(Answer(_ENDED))
                return reply
            named = replace(request, name=f"here-{uuid.uuid4().hex}")
            self._new.append(named)
            self._here[named.name] = reply
            return reply

    def attend(self) -> None:
        """Carry out pending requests, and publish the status if it is due."""
        for request in [*self._control.requests(), *self._asked_here()]:
            if (done := self._done(request)) is not None:
                self._answer(request, done)
        self._answer_asked()
        if self._control.status_due:
            self._control.publish(self._status())
            self._loop.watched |= self._control.watched  # ask the next epoch for the statistics of the next status

    def close(self) -> None:
        """Answer all open requests and stop publishing the status: the run has ended."""
        self._answer_asked()
        for asked in self._asked:
            self._answer(asked.request, Answer(_ENDED))
        with self._lock:
            left, self._here = self._here or {}, None
        for reply in left.values():
            if reply.set_running_or_notify_cancel():
                reply.set_result(Answer(_ENDED))
        self._control.close()

    def _asked_here(self) -> list[Request]:
        """Return the requests of other threads, except those that have been cancelled."""
        with self._lock:
            new, self._new, here = self._new, [], self._here or {}
            return [request for request in new if here[request.name].set_running_or_notify_cancel()]

    def _answer(self, request: Request, answer: Answer) -> None:
        """Answer a request where it came from: through its future, or in the control folder."""
        here = {"query": self._loop.checkpoint.root.name, "epoch": self._loop.manifest.epoch}
        if answer.why_not is None:
            _log.info("%s: %s", _asked_for(request), answer.detail or "done", extra=here)
        else:
            reason = {"reason": answer.why_not}
            _log.info("%s is refused: %s", _asked_for(request), answer.why_not, extra=here | reason)
        with self._lock:
            reply = (self._here or {}).pop(request.name, None)
        if reply is not None:
            reply.set_result(answer)
        else:
            self._control.answer(request, answer.why_not, answer.detail)

    # -- requests ------------------------------------------------------------------------------------------------

    def _done(self, request: Request) -> Answer | None:
        """Carry out a request, for all of its subqueries or for none. Return None if the outcome is not known yet."""
        count = len(self._loop.directories)
        subqueries = range(count) if request.subquery is None else [request.subquery]
        if any(number >= count for number in subqueries):
            return Answer(f"this query has {count} subqueries, counted from 0")
        match request:
            case ScaleRequest(sites):
                return _scaled(sites, self._loop.scale(subqueries, sites))
            case MoveRequest(bits, site, subquery):
                return self._moved(subquery, bits, site)
            case SplitRequest(bits, subquery):
                return self._split(subquery, bits)
            case RebalanceRequest():
                for number in subqueries:
                    self._loop.rebalance(number)
                self._asked.append(Asked(request, subqueries, self._clock.time()))
                return None

    def _answer_asked(self) -> None:
        """Answer the requests for a rebalance whose outcome is known or that have waited long enough."""
        waiting = []
        for asked in self._asked:
            if (answer := asked.answer(self._clock.time())) is None:
                waiting.append(asked)
            else:
                self._answer(asked.request, answer)
        self._asked = waiting

    def _moved(self, subquery: int, bits: str, site: int) -> Answer:
        change = _move(self._loop.directories[subquery], bits, site)
        if change is None:
            return _NO_GROUP
        why_not = self._loop.change(subquery, change)
        detail = f"{bits} moves to site {site}, {_FROM_WHEN}, and stays there until `penstock rebalance`"
        return Answer(why_not, "" if why_not else detail)

    def _split(self, subquery: int, bits: str) -> Answer:
        group = Group.of_bits(bits)
        if group.depth >= MOST_DEPTH:
            return Answer("the group is too small: it has one key or none", "split a group with fewer bits")
        if self._loop.change(subquery, SplitGroup(group)) is not None:
            return _NO_GROUP
        first, second = group.halves
        return Answer(None, f"{bits} is split into {first} and {second}, {_FROM_WHEN}")

    # -- status --------------------------------------------------------------------------------------------------

    def _status(self) -> Status:
        now, query = self._clock.time(), self._loop.query
        while self._committed and self._committed[0][0] < now - LATELY:
            self._committed.popleft()
        last = self._committed[-1][1] if self._committed else None
        over = min(LATELY, max(0.1, now - self._began))
        known = self._has_group_statistics(now)
        return Status(
            query=self._loop.checkpoint.root.name,
            fingerprint=self._loop.manifest.fingerprint,
            epoch=self._loop.manifest.epoch,
            began=self._began,
            at=now,
            rows_in_per_second=sum(event.rows_in for _, event in self._committed) / over,
            rows_out_per_second=sum(event.rows_out for _, event in self._committed) / over,
            waiting=last.waiting if last else 0,
            low_water_mark=as_moment(last.low_water_mark, query.sources[0]) if last else None,
            subqueries=tuple(self._subquery(subquery, known) for subquery in query.program.subqueries),
            decisions=tuple(self._decisions),
            has_group_statistics=known,
            disk_bytes=self._loop.disk.used,
            disk_limit=self._loop.disk.limit or 0,
        )

    def _has_group_statistics(self, now: float) -> bool:
        """Return whether the newest statistics of groups are still valid."""
        loop = self._loop
        if loop.stats_epoch != self._figures:
            self._figures, self._figures_seen = loop.stats_epoch, now
        here = [state.directory for state in loop.manifest.subqueries]
        same = [stats.directory for stats in loop.stats] == here
        return same and (self._figures == loop.manifest.epoch or now - self._figures_seen < STILL_TRUE)

    def _subquery(self, subquery: Subquery, known: bool) -> SubqueryStatus:
        """Return the status of a subquery, with its groups if their statistics are valid."""
        loop, number = self._loop, subquery.number
        if known:
            return subquery_status(subquery, loop.stats[number])
        return untold_status(subquery, loop.manifest.subqueries[number], loop.last, loop.capacity(number))


def _asked_for(request: Request) -> str:
    """Return a request as text, without the name of its file."""
    values = {field.name: getattr(request, field.name) for field in fields(request) if field.name != "name"}
    return f"{type(request).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


def _scaled(sites: int, now: bool) -> Answer:
    """Return the answer to a request for `sites` sites; `now` says whether it took effect."""
    if now:
        return Answer(None, f"{sites} sites, {_FROM_WHEN}")
    return Answer(None, f"{sites} sites, as soon as the keys that are spread over more sites have been gathered")


def _move(directory: Directory, bits: str, site: int) -> Change | None:
    """Return the move of a group to a site; None if there is no such group."""
    group = Group.of_bits(bits)
    try:
        return Move(group, directory.home(group), site)
    except KeyError:
        return None


@dataclass(frozen=True)
class Asked:
    """A request for a rebalance, made at the time `at`, and the outcomes so far, one per subquery."""

    request: RebalanceRequest
    subqueries: Collection[int]
    at: float
    outcomes: tuple[Rebalanced, ...] = ()

    def after(self, event: Rebalanced) -> Asked:
        """Return this request after an event: its outcome is added if it is about one of the subqueries."""
        return replace(self, outcomes=(*self.outcomes, event)) if event.subquery in self.subqueries else self

    def answer(self, now: float) -> Answer | None:
        """Return the answer, or None if it is too early: without input, the outcome can take long."""
        if {event.subquery for event in self.outcomes} >= set(self.subqueries):
            return Answer(None, came_of(self.outcomes))
        if now - self.at >= MOST_WAIT:
            return Answer(
                None,
                "not known yet: the sites are compared after the next epochs; `penstock top` shows the outcome",
            )
        return None


def came_of(outcomes: Sequence[Rebalanced]) -> str:
    """Return the outcome of a rebalance as text."""
    if not outcomes:
        return "nothing to do: this query has no sites"
    known = [
        f"subquery {event.subquery}: {_outcome_text(event)}" for event in outcomes if event.changes or event.refused
    ]
    if known:
        return "; ".join(known)
    apart = f"{100 * max(event.apart for event in outcomes):.0f} %"
    return f"nothing to do: no change would help, the sites of {_which(outcomes)} are within {apart} of each other"


def _outcome_text(event: Rebalanced) -> str:
    parts = [(event.changes, "changed"), (event.refused, "refused")]
    return ", ".join(f"{count:,} {what}" for count, what in parts if count)


def _which(outcomes: Sequence[Rebalanced]) -> str:
    return f"subquery {outcomes[0].subquery}" if len(outcomes) == 1 else "all subqueries"
