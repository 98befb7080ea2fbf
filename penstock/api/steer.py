"""Steering a run from the process that started it: the same requests as from the command line, answered by the run."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, TimeoutError
from dataclasses import asdict

import msgspec

from penstock.control.requests import Answer, MoveRequest, RebalanceRequest, Request, ScaleRequest, SplitRequest
from penstock.errors import ConfigError, PenstockError
from penstock.state.directory import Group

WAIT = 30.0  # seconds for which the answer of a run is waited for


class Helm:
    """Asks a run by `ask` and waits for its answer. `names` are those of its subqueries, in order."""

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
        """Return the subquery that has a group; where there is only one, it need not be named."""
        if subquery is not None or len(self._names) == 1:
            return subquery or 0
        known = ", ".join(f"{number}: {name}" for number, name in enumerate(self._names)) or "this query has none"
        raise ConfigError("which subquery has the group?", detail=known, hint="add subquery= and its number")

    def _answered(self, request: Request, timeout: float) -> str:
        reply = self._ask(request)
        try:
            answer = reply.result(timeout)
        except TimeoutError:
            raise _no_answer(timeout, withdrawn=reply.cancel()) from None
        if answer.why_not is not None:
            hint = answer.detail or "look at run.progress, run.groups() and run.explain() for what there is"
            raise PenstockError("the run did not do it", detail=answer.why_not, hint=hint)
        return answer.detail or "done"


def _checked(request: Request) -> Request:
    """Refuse numbers and groups that make no sense, before the run is asked."""
    try:
        return msgspec.convert(asdict(request), type(request))
    except msgspec.ValidationError as error:
        raise ConfigError(
            "the run cannot be asked for that",
            detail=str(error),
            hint="sites and subqueries are whole numbers; a group is written as its bits, as run.groups() has it",
        ) from error


def _no_answer(timeout: float, withdrawn: bool) -> PenstockError:
    if withdrawn:
        return PenstockError(
            f"nothing was done: the run did not answer in {timeout:g} s",
            detail="the request is taken back",
            hint="ask again, or give it a longer timeout= where epochs are long",
        )
    return PenstockError(
        f"it is not known yet what comes of it: the run did not answer in {timeout:g} s",
        detail="the run has taken the request",
        hint="look at run.events, or give it a longer timeout= where epochs are long",
    )
