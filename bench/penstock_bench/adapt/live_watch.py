"""What a run tells while its rows arrive."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.events import EpochTimed, Event
from penstock_bench.adapt.live_seen import Effort, LiveSeen, Produced
from penstock_bench.adapt.notes import Notes

ON_ROWS = ("work", "emit")  # the steps of a site's task that are spent on rows


@dataclass
class LiveWatch(Notes):
    """Also notes what the tasks of sites did, by the system's clock."""

    efforts: list[Effort] = field(default_factory=list)

    def observe(self, event: Event) -> None:
        super().observe(event)
        if isinstance(event, EpochTimed):
            sites = [task for task in event.tasks if task.kind == "site"]
            worked = sum(task.steps.get(step, 0.0) for task in sites for step in ON_ROWS)
            self.efforts.append(Effort(self.clock(), sum(task.seconds for task in sites), worked))

    def seen(
        self, began: float, produced: tuple[Produced, ...], cpu_seconds: float, cpu: float, equal: bool
    ) -> LiveSeen:
        """All that was noted, by a clock that starts at `began`."""
        efforts = tuple(replace(one, at=one.at - began) for one in self.efforts if one.at > began)
        return LiveSeen(self.timeline(began, cpu, equal), efforts, produced, cpu_seconds)
