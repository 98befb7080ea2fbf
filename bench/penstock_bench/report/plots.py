"""The charts of a benchmark: a panel for each workload, a bar for each system, as SVG text for a page."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock_bench.report.records import OURS, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PANEL_WIDTH, _BAR_HEIGHT, _FRAME_HEIGHT = 5.6, 0.27, 0.62  # inches
_INK = "#010203"  # stands for the colour of the page's text, and is replaced by it
SYSTEM_COLOURS = {
    "penstock": "#1769aa",
    "penstock-files": "#6fb1e8",
    "spark": "#e25a1c",
    "spark-rocksdb": "#f0955f",
    "spark-panes": "#f7c9a9",
    "flink": "#c2417c",
    "duckdb": "#8a929b",
}
_OTHER = "#5b8c5a"


@dataclass(frozen=True)
class Chart:
    """A measure of records. `bounds` gives the ends of its error bar, where it has one."""

    title: str
    axis: str
    scale: str
    value: Callable[[Record], float | None]
    bounds: Callable[[Record], tuple[float, float] | None]
    label: Callable[[float], str]
    tick: Callable[[float], str]


def _rates(record: Record) -> tuple[float, float] | None:
    """The rows per second of the slowest and of the fastest trial."""
    if record.spread is None or record.seconds is None or record.rows_per_second is None:
        return None
    fastest, slowest = record.spread
    return record.rows_per_second * record.seconds / slowest, record.rows_per_second * record.seconds / fastest


RATES = Chart(
    "rows per second",
    "rows/s, logarithmic: median, slowest and fastest trial; dashed: where Penstock's bar should end",
    "log",
    lambda record: record.rows_per_second,
    _rates,
    lambda value: f"{value / 1e6:,.2f} M" if value >= 1e6 else f"{value / 1e3:,.0f} k",
    lambda value: f"{value / 1e6:g} M" if value >= 1e6 else f"{value / 1e3:g} k",
)
MEMORY = Chart(
    "peak memory of all processes of a system",
    "GiB",
    "linear",
    lambda record: None if record.peak_memory_bytes is None else record.peak_memory_bytes / 2**30,
    lambda record: None,
    lambda value: f"{value:.1f}",
    lambda value: f"{value:g}",
)


def chart_svg(chart: Chart, records: Sequence[Record], goals: Mapping[str, float] | None = None) -> str:
    """The chart of all workloads that have a value; empty if none has. `goals` are values to reach, by workload."""
    shown = [record for record in records if chart.value(record) is not None]
    panels = [[one for one in shown if one.workload == name] for name in dict.fromkeys(one.workload for one in shown)]
    if not panels:
        return ""
    written = io.StringIO()
    with _style():
        _drawn(chart, panels, goals or {}).savefig(written, format="svg", transparent=True, metadata={"Date": None})
    return _for_page(written.getvalue(), chart.title)


def _style() -> AbstractContextManager[None]:
    """Text stays text in the picture, so that it takes the letters of the page."""
    from matplotlib import rc_context  # imported late: only a report needs it

    return rc_context({"svg.fonttype": "none", "svg.hashsalt": "penstock", "font.size": 9})


def _drawn(chart: Chart, panels: Sequence[Sequence[Record]], goals: Mapping[str, float]) -> Figure:
    """Panels in two columns with one scale, so that bars can be compared across workloads."""
    columns = min(2, len(panels))
    lines = [panels[at : at + columns] for at in range(0, len(panels), columns)]
    heights = [_FRAME_HEIGHT + _BAR_HEIGHT * max(map(len, line)) for line in lines]
    figure = _figure(_PANEL_WIDTH * columns, sum(heights) + 0.3)
    figure.supxlabel(chart.axis, color=_INK)
    grid = figure.add_gridspec(len(lines), columns, height_ratios=heights)
    limits = _limits(chart, [record for panel in panels for record in panel])
    for row, line in enumerate(lines):
        for column, panel in enumerate(line):
            axes = figure.add_subplot(grid[row, column])
            _panel(axes, chart, panel, limits)
            _goal(axes, panel, goals.get(panel[0].workload))
    return figure


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _limits(chart: Chart, records: Sequence[Record]) -> tuple[float, float]:
    values = [value for record in records if (value := chart.value(record)) is not None]
    room = 1.22  # for the labels at the ends of bars
    if chart.scale == "log":
        least, most = min(values) / 2, max(values) * 2
        return least, most * (most / least) ** (room - 1)
    return 0.0, max(values) * room


def _panel(axes: Axes, chart: Chart, records: Sequence[Record], limits: tuple[float, float]) -> None:
    for place, record in enumerate(records):
        value = chart.value(record) or 0.0
        bounds = chart.bounds(record) or (value, value)
        axes.barh(place, value, color=SYSTEM_COLOURS.get(record.system, _OTHER), height=0.78)
        if bounds[1] > bounds[0]:
            error = [[value - bounds[0]], [bounds[1] - value]]
            axes.errorbar(value, place, xerr=error, color=_INK, capsize=2.5, linewidth=1)
        wrong = "" if record.equal else "  WRONG"
        axes.annotate(
            chart.label(value) + wrong, (bounds[1], place), (5, 0), textcoords="offset points", va="center", color=_INK
        )
    _frame(axes, chart, records, limits)


def _goal(axes: Axes, records: Sequence[Record], goal: float | None) -> None:
    """A mark in the line of Penstock."""
    place = next((place for place, record in enumerate(records) if record.system == OURS), None)
    if goal is not None and place is not None:
        axes.vlines(goal, place - 0.5, place + 0.5, color=_INK, linestyle=(0, (2, 1)), linewidth=1.6)


def _frame(axes: Axes, chart: Chart, records: Sequence[Record], limits: tuple[float, float]) -> None:
    axes.set_xscale(chart.scale)
    axes.set_xlim(limits)
    axes.set_ylim(len(records) - 0.4, -0.6)  # the first on top
    axes.set_yticks(range(len(records)), [record.system for record in records])
    axes.set_title(records[0].workload, loc="left", fontweight="bold", color=_INK)
    axes.xaxis.set_major_formatter(lambda value, _: chart.tick(value))
    axes.minorticks_off()
    axes.tick_params(colors=_INK)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", alpha=0.2, color=_INK)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "left")
        spine.set_color(_INK)


def _for_page(svg: str, title: str) -> str:
    """The picture as part of a page: no prologue, no metadata, its ink and its letters those of the page."""
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    svg = re.sub(r"<metadata>.*?</metadata>\s*|<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = svg.replace("'DejaVu Sans'", "system-ui")
    return svg.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)
