"""How Flink is set up: the configurations that are tried, of which the fastest counts.

All keep state on the heap, reuse objects between chained operators, and make a watermark every 200 ms (Flink's
default).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Configuration:
    """`parallelism` is that of every operator, also of the sources. With `mini_batch`, aggregates that are not windows
    take up to 5,000 rows or half a second at a time. `two_phase` aggregates before the exchange as well.
    `checkpoint_seconds`: None for no checkpoints."""

    name: str
    parallelism: int
    mini_batch: bool = False
    two_phase: bool = True
    checkpoint_seconds: int | None = None

    def settings(self, checkpoints: str) -> dict[str, str]:
        """Flink's own names for it; `checkpoints` is the folder for checkpoints."""
        return {
            "parallelism.default": str(self.parallelism),
            "pipeline.object-reuse": "true",
            "state.backend.type": "hashmap",
            "table.local-time-zone": "UTC",
            "restart-strategy.type": "none",
            "table.optimizer.agg-phase-strategy": "AUTO" if self.two_phase else "ONE_PHASE",
            **(_MINI_BATCH if self.mini_batch else {}),
            **self._checkpointing(checkpoints),
        }

    def _checkpointing(self, folder: str) -> dict[str, str]:
        if self.checkpoint_seconds is None:
            return {}
        return {
            "execution.checkpointing.interval": f"{self.checkpoint_seconds} s",
            "execution.checkpointing.dir": f"file://{folder}",
            # Otherwise a bounded input can end with a wait for the next checkpoint.
            "execution.checkpointing.checkpoints-after-tasks-finish": "false",
        }


_MINI_BATCH = {
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "5000",
}

CHECKPOINT_SECONDS = 10


def checkpointed(slots: int) -> Configuration:
    """What Flink needs to give its results once after a crash."""
    return Configuration("all slots, checkpoints", parallelism=slots, checkpoint_seconds=CHECKPOINT_SECONDS)


def listed_for(query: str, slots: int) -> tuple[Configuration, ...]:
    """The configurations that are tried for a query, of which the fastest counts: what tunes aggregates only for
    those."""
    all_slots, one_slot = Configuration("all slots", parallelism=slots), Configuration("one slot", parallelism=1)
    if "GROUP BY" not in query.upper():
        return all_slots, one_slot
    mini_batch = Configuration("all slots, mini-batch", parallelism=slots, mini_batch=True)
    return all_slots, mini_batch, Configuration("all slots, one phase", parallelism=slots, two_phase=False), one_slot
