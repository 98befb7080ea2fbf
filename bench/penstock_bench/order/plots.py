"""The figures of the experiments on order: one picture per experiment, both modes as lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock_bench.order.comparison import Comparison, Measured
from penstock_bench.order.report import MODE_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _DOTS = 5.0, 3.6, 110  # of a panel in inches; per inch
_STYLES = {"in": ("#b5552b", "s"), "out": ("#2b6cb5", "o")}


@dataclass(frozen=True)
class Panel:
    """One measure over the points of an experiment."""

    title: str
    axis: str
    value: Callable[[Measured], float]


MEMORY = Panel("memory", "most held after an epoch (MB)", lambda one: one.held.total / 1e6)
EXECUTION = Panel("execution time", "processor time (s)", lambda one: one.cpu_seconds)
EVENT_LATENCY = Panel("latency in event time", "event time (s)", lambda one: _latency(one)[0])
LATENCY = Panel("latency in system time", "time (ms)", lambda one: _latency(one)[1])


def _latency(one: Measured) -> tuple[float, float]:
    return (0.0, 0.0) if one.latency is None else (one.latency.event_time / 1e6, one.latency.seconds * 1e3)


def write_plot(compared: Sequence[Comparison], path: Path) -> None:
    """The picture of one experiment, with all that was measured of it."""
    with_latency = compared[0].in_order.latency is not None
    panels = [MEMORY, EVENT_LATENCY, LATENCY, EXECUTION] if with_latency else [MEMORY]
    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    figure = _figure(rows, columns)
    for number, panel in enumerate(panels, 1):
        _draw(figure.add_subplot(rows, columns, number), panel, compared)
    figure.tight_layout()
    figure.savefig(path, dpi=_DOTS)


def _figure(rows: int, columns: int) -> Figure:
    from matplotlib.figure import Figure  # imported late: only a report needs it

    return Figure(figsize=(_WIDTH * columns, _HEIGHT * rows))


def _draw(axes: Axes, panel: Panel, compared: Sequence[Comparison]) -> None:
    experiment = compared[0].in_order.experiment
    points = [comparison.in_order.point for comparison in compared]
    for line in zip(*(comparison.both for comparison in compared), strict=True):
        color, marker = _STYLES[line[0].mode]
        axes.plot(
            points, [panel.value(one) for one in line], color=color, marker=marker, label=MODE_NAMES[line[0].mode]
        )
    axes.set_title(f"{experiment.name}: {panel.title}")
    axes.set_xlabel(experiment.axis)
    axes.set_ylabel(panel.axis)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
