"""Pictures of the experiments on adapting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from penstock_bench.experiments.experiment import Record, Value
from penstock_bench.report.canvas import empty_figure, saved

Points = Sequence[tuple[float, float]]
COLOURS = ("#8a8a8a", "#2b6cb5", "#b5552b", "#3f8f4f", "#8a4fa0", "#b59a2b", "#2b9fa5", "#5a5a5a")


def points(records: Sequence[Record], x: str, y: str, **only: Value) -> list[tuple[float, float]]:
    """(x, y) of the records that have some values; those without y are left out, and a missing x counts as 0."""
    own = [record for record in records if all(record[key] == value for key, value in only.items())]
    return [(float(record[x] or 0), float(found)) for record in own if (found := record[y]) is not None]


def write_curves(
    curves: Mapping[str, Points],
    title: str,
    moments: Mapping[float, str],
    path: Path,
    labels: tuple[str, str] = ("seconds", "rows per second"),
    *,
    marker: str = "",
    bottom: float | None = 0.0,
) -> Path:
    """A line for each name; what happened at some moments is marked."""
    figure = empty_figure(7.6, 4.4)
    axes = figure.add_subplot()
    for colour, (name, points) in zip(COLOURS * 4, curves.items(), strict=False):
        axes.plot([x for x, _ in points], [y for _, y in points], color=colour, label=name, marker=marker)
    for at, word in moments.items():
        axes.axvline(at, color="#444444", linestyle=":")
        axes.annotate(word, (at, 1.0), xycoords=("data", "axes fraction"), xytext=(4, -12), textcoords="offset points")
    axes.set(title=title, xlabel=labels[0], ylabel=labels[1])
    axes.set_ylim(bottom=bottom)
    axes.grid(alpha=0.3)
    axes.legend()
    return saved(figure, path)
