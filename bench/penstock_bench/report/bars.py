"""What Penstock is to reach on each workload, as data. All are ratios in one run on two cores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LEAST_EPOCHS = 5  # of a run of Penstock: one that takes all input at once would be a batch, and no stream

SPARK_NATIVE = ("spark", "spark-rocksdb")
FLINK = ("flink",)
DUCKDB = ("duckdb",)
PEERS = {SPARK_NATIVE: "Spark native, the better of its stores", FLINK: "Flink", DUCKDB: "DuckDB batch"}


@dataclass(frozen=True)
class Bar:
    """On `workload`, Penstock is to be at least `times` as fast as the fastest of `peers`, or to take at most `times`
    its time."""

    workload: str
    peers: tuple[str, ...]
    kind: Literal["faster", "slower"]
    times: float

    @property
    def least_ratio(self) -> float:
        """The same as the least that Penstock's rows per second may be of the peer's."""
        return self.times if self.kind == "faster" else 1 / self.times

    @property
    def peer(self) -> str:
        return PEERS[self.peers]

    @property
    def text(self) -> str:
        return f"at least {self.times:g} times" if self.kind == "faster" else f"at most {self.times:g} times its time"

    def figure(self, ratio: float) -> str:
        """A measured ratio in the words of the bar."""
        return f"{ratio:.2f} times" if self.kind == "faster" else f"{1 / ratio:.2f} times its time"


def _bars(workload: str, spark: float) -> tuple[Bar, ...]:
    return (
        Bar(workload, SPARK_NATIVE, "faster", spark),
        Bar(workload, FLINK, "faster", 3),
        Bar(workload, DUCKDB, "slower", 4),
    )


BARS: tuple[Bar, ...] = (
    *_bars("slide", 60),
    *_bars("tumble", 20),
    *_bars("band", 20),
    *_bars("three-way", 20),
    Bar("wide", SPARK_NATIVE, "faster", 5),
)
