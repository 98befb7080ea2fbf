"""What experiments found, as tables for the terminal and as JSON for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock_bench.experiments.experiment import Bar, Experiment, Finding

Found = tuple[Experiment, Finding]


def as_json(found: Sequence[Found]) -> str:
    """One object per experiment."""
    records = [record(experiment, finding) for experiment, finding in found]
    return msgspec.json.format(msgspec.json.encode(records), indent=2).decode()


def as_line(found: Found) -> str:
    """One experiment as one line of JSON."""
    return msgspec.json.encode(record(*found)).decode()


def record(experiment: Experiment, finding: Finding) -> dict[str, Any]:
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "records": [dict(one) for one in finding.records],
        "bars": [_bar_record(bar) for bar in finding.bars],
        "equal": finding.equal,
        "holds": finding.holds,
    }


def _bar_record(bar: Bar) -> dict[str, Any]:
    return {
        "what": bar.what,
        "value": bar.value,
        "kind": bar.kind,
        "bound": bar.bound,
        "unit": bar.unit,
        "reached": bar.reached,
    }


def as_tables(found: Sequence[Found]) -> Group:
    return Group(*(part for experiment, finding in found for part in _parts(experiment, finding)))


def _parts(experiment: Experiment, finding: Finding) -> list[RenderableType]:
    title = Text(f"{experiment.name}: {experiment.title}", "italic")  # above the table, not as wide as it
    table = Table()
    numbers = {key for one in finding.records for key, value in one.items() if isinstance(value, int | float)}
    for column in experiment.columns:
        table.add_column(column.heading, justify="right" if column.key in numbers else "left")
    for one in finding.records:
        table.add_row(*(column.text(one) for column in experiment.columns))
    wrong = [] if finding.equal else [Text("results were NOT EQUAL to the batch answer", "bold red")]
    return [title, table, *map(bar_line, finding.bars), *wrong, Text(experiment.note, "dim"), Text()]


def bar_line(bar: Bar) -> Text:
    """A bar with its verdict."""
    verdict = ("reached", "green") if bar.reached else ("MISSED", "bold red")
    return Text.assemble(f"{bar.what}: {bar.value:.2f}, {bar.kind} {bar.bound:.2f} {bar.unit}: ", verdict)
