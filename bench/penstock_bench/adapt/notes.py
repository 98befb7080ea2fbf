"""What a run tells, noted as it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from penstock.events import ChangeRefused, DirectoryChanged, EpochCommitted, Event
from penstock_bench.adapt.timeline import ChangeSeen, EpochSeen, Timeline


@dataclass
class Notes:
    """Times are those of `clock`. Invariant: `backlog` is that of the last epoch, `done` the rows of all of them."""

    clock: Callable[[], float] = time.time
    epochs: list[EpochSeen] = field(default_factory=list)
    changes: list[ChangeSeen] = field(default_factory=list)
    refused: int = 0
    backlog: int = 0
    done: int = 0

    def observe(self, event: Event) -> None:
        match event:
            case EpochCommitted():
                self._committed(event)
            case DirectoryChanged(what=what, why=why):
                self.changes.append(ChangeSeen(self.clock(), what, why))
            case ChangeRefused():
                self.refused += 1

    def _committed(self, event: EpochCommitted) -> None:
        done, self.backlog = event.rows_in + self.backlog - event.backlog, event.backlog
        seen = EpochSeen(self.clock(), event.seconds, event.rows_in, event.rows_out, done, event.backlog, event.sites)
        self.epochs.append(seen)
        self.done += done

    def timeline(self, began: float, cpu: float, equal: bool) -> Timeline:
        """All that was noted, by a clock that starts at `began`; what was done before it counts as done."""
        epochs = tuple(replace(one, at=one.at - began) for one in self.epochs)
        changes = tuple(replace(one, at=one.at - began) for one in self.changes)
        return Timeline(epochs, changes, self.refused, cpu, equal)
