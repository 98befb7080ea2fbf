"""An executor that reads ahead in this process, as a worker pool does: the splits of the next epoch are routed, with
the current directories, before the sites of this epoch have run."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.clock import SYSTEM_CLOCK, Clock
from penstock.engine.driver.executor import InlineExecutor, through_levels
from penstock.engine.task.level import run_route
from penstock.engine.wire.blob import Blob
from penstock.engine.wire.job import EpochJob, LookAhead, Message, Report, RouteTask, nothing_follows


class ReadingAhead(InlineExecutor):
    """An inline executor that reads ahead. Invariant: `_ahead` holds the messages of splits that the next epoch may
    use."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        super().__init__(clock)
        self._ahead: tuple[Sequence[RouteTask], list[Message]] | None = None
        self.used = 0

    def run(self, job: EpochJob, routes: Sequence[RouteTask], following: LookAhead = nothing_follows) -> list[Report]:
        messages = self._begun(routes)
        if messages is None:
            messages = self._routed(job, routes)
        behind = following([m.content for m in messages if not isinstance(m.content, Blob)])
        self._ahead = None if behind is None else (behind[1], self._routed(*behind))
        return through_levels(job, messages, self._clock)

    def _begun(self, routes: Sequence[RouteTask]) -> list[Message] | None:
        """Return the messages of these routes if they were read ahead; None otherwise."""
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead[0] is not routes:
            return None
        self.used += 1
        return ahead[1]

    def _routed(self, job: EpochJob, routes: Sequence[RouteTask]) -> list[Message]:
        return [message for task in routes for message in run_route(job, task, self._clock)]
