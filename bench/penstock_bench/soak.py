"""A long run of small epochs: what grows that should not? `python -m penstock_bench.soak --epochs 500`.

After every epoch it notes the memory of the driver, its JVM and its workers, the files in the checkpoint, the files in
Spark's shuffle folders and the open handles of all these processes. Memory must not have grown by more than 5 % from
epoch 100 on; the counts must never exceed what they were between epochs 100 and 200.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

import penstock as ps
from penstock.events import EpochCommitted, Event
from penstock_bench.run.memory import tree_memory

WARM_UP, REFERENCE_END = 100, 200
MOST_GROWTH = 1.05


@dataclass(frozen=True)
class Sample:
    """What was there after an epoch."""

    epoch: int
    memory: int
    checkpoint_files: int
    shuffle_files: int
    handles: int


@dataclass(frozen=True)
class Verdict:
    """`memory_growth` compares the median of the last 20 epochs with that of the 20 after the warm-up."""

    epochs: int
    memory_growth: float
    checkpoint_files: tuple[int, int]
    shuffle_files: tuple[int, int]
    handles: tuple[int, int]
    holds: bool


def judge(samples: Sequence[Sample]) -> Verdict:
    """(most in the reference epochs, most after them) for each count, and whether all bars hold."""
    after_warm_up = [s for s in samples if s.epoch > WARM_UP]
    reference = [s for s in after_warm_up if s.epoch <= REFERENCE_END]
    rest = [s for s in after_warm_up if s.epoch > REFERENCE_END]
    growth = _median_memory(rest[-20:]) / _median_memory(reference[:20])
    counts = {
        name: (max(getattr(s, name) for s in reference), max(getattr(s, name) for s in rest))
        for name in ("checkpoint_files", "shuffle_files", "handles")
    }
    holds = growth < MOST_GROWTH and all(later <= before for before, later in counts.values())
    return Verdict(len(samples), growth, **counts, holds=holds)


def _median_memory(samples: Sequence[Sample]) -> float:
    return statistics.median(s.memory for s in samples)


def soak(epochs: int, folder: Path, master: str, tell: Callable[[Sample], None]) -> list[Sample]:
    """Run a query of small epochs and take a sample after each."""
    samples: list[Sample] = []
    checkpoint = folder / "checkpoint"

    def on_event(event: Event) -> None:
        if isinstance(event, EpochCommitted):
            samples.append(_sample(event.epoch, checkpoint, folder))
            tell(samples[-1])

    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "spark")
    calls = ps.read.calls(rows=epochs * 2_000, rate=1_000, keys=500, disorder="2s", split_rows=1_000)
    busy = calls.group_by("caller").window(ps.sliding("1m", every="5s")).agg(n=ps.count(), mean=ps.avg("duration"))
    ready = busy.to.files(str(folder / "out"))
    run = ready.start(str(checkpoint), master=master, rows_per_epoch=2_000, on_event=on_event)
    run.wait()
    return samples


def _sample(epoch: int, checkpoint: Path, folder: Path) -> Sample:
    root = psutil.Process()
    processes = [root, *root.children(recursive=True)]
    return Sample(
        epoch=epoch,
        memory=tree_memory(root),
        checkpoint_files=_files(checkpoint),
        shuffle_files=_files(folder / "spark"),
        handles=sum(_handles(process) for process in processes),
    )


def _files(folder: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(folder))


def _handles(process: psutil.Process) -> int:
    try:
        return int(process.num_fds())
    except psutil.Error:
        return 0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--epochs", type=int, default=500)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args(arguments)
    if options.epochs <= REFERENCE_END:
        parser.error(f"a soak needs more than {REFERENCE_END} epochs to compare")
    with tempfile.TemporaryDirectory(prefix="penstock-soak-") as folder:
        samples = soak(options.epochs, Path(folder), options.master, _tell_sometimes)
    verdict = judge(samples)
    print(json.dumps(asdict(verdict)))
    return 0 if verdict.holds else 1


def _tell_sometimes(sample: Sample) -> None:
    if sample.epoch % 50 == 0:
        print(
            f"epoch {sample.epoch}: {sample.memory / 1e6:,.0f} MB, {sample.checkpoint_files} files in the checkpoint, "
            f"{sample.shuffle_files} shuffle files, {sample.handles} handles",
            file=sys.stderr,
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
