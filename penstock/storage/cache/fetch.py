"""Fetching slices in the background, one after the other, while a site does other work and between epochs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from penstock.errors import PenstockError
from penstock.state.runs import Slice
from penstock.storage.cache.cached_run import Breathe

Bring = Callable[[Slice, Breathe], int]  # returns the bytes fetched


class Fetcher(Protocol):
    """Fetches slices to this host."""

    def begin(self, slices: Iterable[Slice]) -> None:
        """Queue slices, in this order, after those queued before. Does not wait."""
        ...

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        """Wait until the slices are present, at most `seconds` (None: no limit). Raises the error of a slice that could
        not be fetched."""
        ...

    def brought(self, slices: Iterable[Slice]) -> int:
        """Return the bytes fetched for these slices since the last call for them."""
        ...

    def keep_only(self, names: Collection[str]) -> None:
        """Drop slices of other runs from the queue: they are no longer needed."""
        ...


class Fetching:
    """A fetcher with a thread that lives only while there are slices to fetch.

    The thread takes at most half of a core, so that sites can work, but runs at full speed while a caller waits.
    Invariant: slices in `_queue` are being fetched; whoever changes a field holds the lock.
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
        """Fetch slices until the queue is empty. Every error is recorded for the slice, because a caller may wait for
        it."""
        while (piece := self._next()) is not None:
            try:
                self._done(piece, self._bring(piece, self._breathe))
            except PenstockError as error:
                self._done(piece, 0, error)
            except BaseException as error:  # of any kind: a caller may wait for this slice
                self._done(piece, 0, _not_fetched(piece, error))

    def _next(self) -> Slice | None:
        """Return the next slice; None ends the thread."""
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
        """Pause for as long as the last portion took, unless a caller waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, took)


def _not_fetched(piece: Slice, error: BaseException) -> PenstockError:
    return PenstockError(
        f"the state file {piece.run.name} could not be fetched",
        detail=f"{type(error).__name__}: {error}",
        hint="the checkpoint is intact: fix the cause and restart the query",
    )
