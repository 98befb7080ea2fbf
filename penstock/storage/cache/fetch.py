"""Fetching slices in the background, one after the other, while a site does other work and between epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from penstock.errors import PenstockError
from penstock.state.runs import Slice
from penstock.storage.cache.cached_run import Breathe

Bring = Callable[[Slice, Breathe], int]  # gives the bytes that came


class Fetcher(Protocol):
    """Brings slices to this host."""

    def begin(self, slices: Iterable[Slice]) -> None:
        """Bring them, in this order, behind what was asked for before. Does not wait."""
        ...

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Until they are here, at most for so many seconds (None: however long it takes). Raises what keeps one of
        them from coming."""
        ...

    def brought(self, slices: Iterable[Slice]) -> int:
        """The bytes that have come for these slices and have not been told yet."""
        ...

    def keep_only(self, names: Collection[str]) -> None:
        """Slices of other runs are of no use any more."""
        ...


class Fetching:
    """A thread that is there only as long as there is something to bring.

    It takes half of a core at most, so that sites can go on; but it hurries while somebody waits.
    Invariant: what is in `_queue` is on its way; the lock is held by whoever changes anything here.
    """

    def __init__(self, bring: Bring) -> None:
        self._bring = bring
        self._changed = threading.Condition()
        self._queue: dict[Slice, None] = {}
        self._thread: threading.Thread | None = None
        self._waiting = 0
        self._errors: dict[Slice, PenstockError] = {}
        self._bytes: dict[Slice, int] = {}

    def begin(self, slices: Iterable[Slice]) -> None:
        with self._changed:
            self._queue.update(dict.fromkeys(slices))
            if self._queue and self._thread is None:
                self._thread = threading.Thread(target=self._run, name="penstock-fetch", daemon=True)
                self._thread.start()

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._queue.keys().isdisjoint(slices), seconds)
            finally:
                self._waiting -= 1
            for error in [self._errors.pop(piece) for piece in slices if piece in self._errors]:
                raise error

    def brought(self, slices: Iterable[Slice]) -> int:
        with self._changed:
            return sum(self._bytes.pop(piece, 0) for piece in slices)

    def keep_only(self, names: Collection[str]) -> None:
        with self._changed:
            for known in (self._queue, self._errors, self._bytes):
                for piece in [piece for piece in known if piece.run.name not in names]:
                    del known[piece]
            self._changed.notify_all()

    def _run(self) -> None:
        while (piece := self._next()) is not None:
            try:
                self._done(piece, self._bring(piece, self._breathe))
            except PenstockError as error:
                self._done(piece, 0, error)
            except BaseException as error:  # whatever it is: somebody waits for this slice
                self._done(piece, 0, _not_fetched(piece, error))

    def _next(self) -> Slice | None:
        with self._changed:
            if not self._queue:
                self._thread = None
            return next(iter(self._queue), None)

    def _done(self, piece: Slice, size: int, error: PenstockError | None = None) -> None:
        with self._changed:
            self._queue.pop(piece, None)
            if error is not None:
                self._errors[piece] = error
            elif size:
                self._bytes[piece] = self._bytes.get(piece, 0) + size
            self._changed.notify_all()

    def _breathe(self, took: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, took)


def _not_fetched(piece: Slice, error: BaseException) -> PenstockError:
    return PenstockError(
        f"the state file {piece.run.name} could not be fetched",
        detail=f"{type(error).__name__}: {error}",
        hint="the checkpoint is intact: fix the cause and start the query again",
    )
