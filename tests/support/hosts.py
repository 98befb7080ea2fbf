"""Several hosts in one process, each with its own run cache, and a slow fetcher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

from penstock.clock import SYSTEM_CLOCK
from penstock.engine.task.level import partition_of, run_level, run_route
from penstock.engine.task.site.storing import HOSTS, HostRuns
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, LookAhead, Message, Report, RouteTask, nothing_follows
from penstock.errors import PenstockError
from penstock.state.runs import Slice
from penstock.storage.cache.host import Bring, Fetcher, Fetching, HostCache

CACHE_BYTES = 1 << 30


class LateFetcher:
    """Fetches each slice only after the sites of its host have asked for it a random number of times, or when a
    caller waits without a time limit: as if a fetch took some epochs. `late` counts the slices that were not
    fetched at once."""

    def __init__(self, bring: Bring, random: Random, most: int = 4) -> None:
        self._bring, self._random, self._most = bring, random, most
        self._left: dict[Slice, int] = {}
        self._bytes: dict[Slice, int] = {}
        self.late = 0

    def begin(self, slices: Iterable[Slice]) -> None:
        for piece in slices:
            if piece not in self._left:
                self._left[piece] = self._random.randint(0, self._most)
                self.late += self._left[piece] > 0
        for piece in list(self._left):
            self._left[piece] -= 1
            if self._left[piece] < 0:
                with suppress(PenstockError):  # the slice may no longer be needed, and its run deleted
                    self._arrive(piece)

    def wait(self, slices: Collection[Slice], seconds: float | None) -> None:
        for piece in slices if seconds is None else ():
            self._arrive(piece)

    def _arrive(self, piece: Slice) -> None:
        self._left.pop(piece, None)
        self._bytes[piece] = self._bytes.get(piece, 0) + self._bring(piece, lambda took: None)

    def brought(self, slices: Iterable[Slice]) -> int:
        return sum(self._bytes.pop(piece, 0) for piece in slices)

    def keep_only(self, names: Collection[str]) -> None:
        self._left = {piece: left for piece, left in self._left.items() if piece.run.name in names}


class HostsExecutor:
    """Runs the tasks of an epoch one after another, each site on one of `hosts` hosts, by its number."""

    def __init__(
        self, folder: Path, hosts: int, fetcher: Callable[[Bring], Fetcher] = Fetching, cache_bytes: int = CACHE_BYTES
    ) -> None:
        self._folder, self._hosts, self._fetcher, self._cache_bytes = folder, hosts, fetcher, cache_bytes
        self._known: dict[Path, HostRuns] = {}
        self.fetched = 0

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        messages = [m for task in routes for m in run_route(job, task, SYSTEM_CLOCK)]
        for level in range(len(job.program.subqueries)):
            partitions: list[list[Message]] = [[] for _ in range(job.width)]
            for message in messages:
                partitions[partition_of(message.to, job.width)].append(message)
            steps = [
                run_level(self._at(job, site), level, site, inbox, SYSTEM_CLOCK)
                for site, inbox in enumerate(partitions)
            ]
            messages = [message for step in steps for message in step]
        reports = [m.content for m in messages if not isinstance(m.content, Blob)]
        self.fetched += sum(getattr(report, "fetched", 0) for report in reports)
        return reports

    def _at(self, job: EpochJob, site: int) -> EpochJob:
        """Return the job as the host of a site sees it."""
        root = self._folder / f"host-{site % self._hosts}"
        if root not in self._known:
            cache = HostCache(root, job.runs, self._cache_bytes)
            self._known[root] = HostRuns(cache, self._fetcher(cache.fetch))
        HOSTS[root, job.runs] = self._known[root]
        return replace(job, cache=str(root))

    def cancel(self) -> None:
        """Do nothing: an epoch in this process is short."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
