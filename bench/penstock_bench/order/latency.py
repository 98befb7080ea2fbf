"""Latency: from the punctuation that covers a result to the result.

A result is covered once the punctuation of all inputs says that nothing can change it any more. It could be published
in the epoch that read the last of this punctuation.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from penstock.types import time_values
from penstock_bench.order.experiments import Windowed
from penstock_bench.order.run import Epoch


@dataclass(frozen=True)
class Latency:
    """The mean over all windows: in epochs, in microseconds of event time that arrive in these epochs, and in seconds
    from the start of the epoch that read the punctuation to the end of the one that published the result."""

    epochs: float
    event_time: float
    seconds: float


def latency(epochs: Sequence[Epoch], windows: Windowed, epoch_length: int) -> Latency:
    """Of a run that has published at least one window."""
    found = list(_covered_and_published(epochs, windows))
    waited = statistics.fmean(published - covered for covered, published in found)
    seconds = statistics.fmean(
        sum(epoch.seconds for epoch in epochs[covered : published + 1]) for covered, published in found
    )
    return Latency(waited, waited * epoch_length, seconds)


def _covered_and_published(epochs: Sequence[Epoch], windows: Windowed) -> Iterator[tuple[int, int]]:
    """The places of two epochs for each window."""
    for published, epoch in enumerate(epochs):
        for start in time_values(pc.unique(epoch.results.column("window_start"))).tolist():
            yield _covered(epochs, windows, start + windows.size), published


def _covered(epochs: Sequence[Epoch], windows: Windowed, end: int) -> int:
    """The first epoch with punctuation that covers a window which ends at `end`."""
    return next(
        n
        for n, epoch in enumerate(epochs)
        if all(epoch.marks[name].has_reached(end + behind) for name, behind in windows.behind.items())
    )
