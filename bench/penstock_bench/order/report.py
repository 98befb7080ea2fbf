"""The experiments on order as a table for the terminal and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import msgspec
from rich.console import Group
from rich.table import Table

from penstock_bench.order.comparison import Comparison, Measured
from penstock_bench.order.latency import Latency

MODE_NAMES = {"in": "in order", "out": "out of order"}
CAPTION = (
    "MB: the most that was held after any epoch, of rows still needed, in order and out of order; ratio: what out of "
    "order holds of what in order holds; CPU: seconds of processor time of all epochs; wait: from the punctuation that "
    "covers a result to the result, in event time and in system time"
)


def as_json(compared: Sequence[Comparison]) -> str:
    """One object per experiment, point and mode."""
    records = [record(comparison, one) for comparison in compared for one in comparison.both]
    return msgspec.json.format(msgspec.json.encode(records), indent=2).decode()


def as_lines(compared: Comparison) -> str:
    """Both modes at one point, a line of JSON each."""
    return "\n".join(msgspec.json.encode(record(compared, one)).decode() for one in compared.both)


def record(comparison: Comparison, one: Measured) -> dict[str, Any]:
    """`bar` is the largest ratio allowed at this point; null where there is none."""
    return {
        "experiment": one.experiment.name,
        "figure": one.experiment.figure,
        "title": one.experiment.title,
        "axis": one.experiment.axis,
        "point": one.point,
        "mode": one.mode,
        "held_bytes": one.held.total,
        "state_bytes": one.held.state,
        "pending_bytes": one.held.pending,
        "ordering_bytes": one.held.ordering,
        "ratio": comparison.ratio,
        "bar": comparison.bar,
        "seconds": one.seconds,
        "cpu_seconds": one.cpu_seconds,
        "epochs": one.epochs,
        "rows_in": one.rows_in,
        "rows_out": one.rows_out,
        **_latency_record(one.latency),
        "equal": one.equal,
    }


def _latency_record(latency: Latency | None) -> dict[str, float | None]:
    return {
        "latency_epochs": None if latency is None else latency.epochs,
        "latency_event_seconds": None if latency is None else latency.event_time / 1e6,
        "latency_seconds": None if latency is None else latency.seconds,
    }


def as_tables(compared: Sequence[Comparison]) -> Group:
    """A table for each experiment."""
    groups = groupby(compared, key=lambda comparison: comparison.in_order.experiment.name)
    return Group(*(_table(list(group)) for _, group in groups), CAPTION)


def _table(compared: Sequence[Comparison]) -> Table:
    table = Table(title=title(compared[0]), title_justify="left")
    for heading in headings(compared[0]):
        table.add_column(heading, justify="right")
    for comparison in compared:
        table.add_row(*cells(comparison))
    return table


def title(comparison: Comparison) -> str:
    experiment = comparison.in_order.experiment
    bar = "" if experiment.bar is None else f"; at last the ratio is to be at most {experiment.bar}"
    return f"{experiment.name}, figure {experiment.figure}: {experiment.title}{bar}"


def headings(comparison: Comparison) -> list[str]:
    """Of the columns, "in" for in order and "out" for out of order."""
    measured = comparison.in_order
    latency = ["wait in", "wait out"] if measured.latency else []
    return [measured.experiment.axis, "MB in", "MB out", "ratio", "CPU in", "CPU out", *latency, "equal"]


def cells(comparison: Comparison) -> list[str]:
    """One row of a table."""
    return [
        str(comparison.in_order.point),
        *(f"{one.held.total / 1e6:,.3f}" for one in comparison.both),
        _ratio(comparison),
        *(f"{one.cpu_seconds:.2f}" for one in comparison.both),
        *(_latency(one.latency) for one in comparison.both if one.latency),
        "yes" if all(one.equal for one in comparison.both) else "NO",
    ]


def _ratio(comparison: Comparison) -> str:
    missed = comparison.bar is not None and comparison.ratio > comparison.bar
    return f"{comparison.ratio:.4f}{' MISSED' if missed else ''}"


def _latency(latency: Latency) -> str:
    return f"{latency.event_time / 1e6:.0f} s, {latency.seconds * 1e3:.0f} ms"
