"""The picture of `latency`: delay over rate, both systems, the middle and the 99th percentile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penstock_bench.experiments.latency_run import Point
from penstock_bench.report.canvas import empty_figure, saved

_STYLES = {"penstock": "#2b6cb5", "spark": "#b5552b"}
_PERCENTILES = {50: ("--", "o"), 99: ("-", "s")}


def write_plot(points: Sequence[Point], path: Path) -> Path:
    figure = empty_figure(7.2, 4.6)
    axes = figure.add_subplot()
    for system, colour in _STYLES.items():
        own = sorted((point for point in points if point.system == system), key=lambda point: point.rate)
        for part, (line, marker) in _PERCENTILES.items():
            label = f"{system}, {part}th percentile"
            rates, values = [point.rate for point in own], [point.percentile(part) for point in own]
            axes.plot(rates, values, linestyle=line, marker=marker, color=colour, label=label)
    axes.set(xscale="log", yscale="log", xlabel="rows that arrive per second", ylabel="arrival to published result (s)")
    axes.grid(which="both", alpha=0.3)
    axes.legend()
    return saved(figure, path)
