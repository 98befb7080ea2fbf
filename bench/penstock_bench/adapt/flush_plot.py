"""The picture of `adapt-flush`: the highest rate over the number of groups, and the longest epoch beside it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock_bench.report.canvas import empty_figure, saved

if TYPE_CHECKING:
    from penstock_bench.adapt.flush import Line

_COLOURS = {"eager": "#b5552b", "slow": "#2b6cb5", "lazy": "#3a8f5c"}


def write_plot(lines: Sequence[Line], path: Path) -> Path:
    figure = empty_figure(9.6, 4.2)
    rates, epochs = figure.subplots(1, 2)
    for flush, colour in _COLOURS.items():
        own = [line for line in lines if line.flush == flush]
        groups = [line.groups for line in own]
        style = "--" if flush == "lazy" else "-"  # it may lie upon another
        rates.plot(groups, [line.highest for line in own], style, marker="o", color=colour, label=flush)
        epochs.plot(groups, [line.common.longest for line in own], marker="s", color=colour, label=flush)
    rates.set(xlabel="groups", ylabel="highest rate without a backlog (rows/s)", ylim=(0, None))
    epochs.set(xlabel="groups", ylabel="longest epoch at a common rate (s)", ylim=(0, None))
    for axes in (rates, epochs):
        axes.grid(alpha=0.3)
        axes.legend()
    return saved(figure, path)
