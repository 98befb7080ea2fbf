"""What a run tells while its rows arrive."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from penstock.bench.adapt.live_seen import Effort, LiveSeen, Produced
from penstock.bench.adapt.timeline import ChangeSeen, EpochSeen, Timeline
from penstock.events import ChangeRefused, DirectoryChanged, EpochCommitted, EpochTimed, Event

ON_ROWS = ("work", "emit")  # the steps of a site's task that are spent on rows


@dataclass
class LiveWatch:
    """Notes what a run tells, by the system's clock. Invariant: `backlog` is that of the last epoch, `done` the rows of
    all of them."""

    epochs: list[EpochSeen] = field(default_factory=list)
    efforts: list[Effort] = field(default_factory=list)
    changes: list[ChangeSeen] = field(default_factory=list)
    refused: int = 0
    backlog: int = 0
    done: int = 0

    def hear(self, event: Event) -> None:
        match event:
            case EpochCommitted():
                self._committed(event)
            case EpochTimed(tasks=tasks):
                sites = [task for task in tasks if task.kind == "site"]
                worked = sum(task.steps.get(step, 0.0) for task in sites for step in ON_ROWS)
                self.efforts.append(Effort(time.time(), sum(task.seconds for task in sites), worked))
            case DirectoryChanged(what=what, why=why):
                self.changes.append(ChangeSeen(time.time(), what, why))
            case ChangeRefused():
                self.refused += 1

    def _committed(self, event: EpochCommitted) -> None:
        done, self.backlog = event.rows_in + self.backlog - event.backlog, event.backlog
        seen = EpochSeen(time.time(), event.seconds, event.rows_in, event.rows_out, done, event.backlog, event.sites)
        self.epochs.append(seen)
        self.done += done

    def seen(
        self, began: float, produced: tuple[Produced, ...], cpu_seconds: float, cpu: float, equal: bool
    ) -> LiveSeen:
        """All that was noted, by a clock that starts at `began`; what was done before it counts as done."""
        epochs = tuple(replace(one, at=one.at - began) for one in self.epochs)
        efforts = tuple(replace(one, at=one.at - began) for one in self.efforts if one.at > began)
        changes = tuple(replace(one, at=one.at - began) for one in self.changes)
        return LiveSeen(Timeline(epochs, changes, self.refused, cpu, equal), efforts, produced, cpu_seconds)
