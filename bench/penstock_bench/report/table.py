"""Measurements as a table for the terminal, as JSON for programs, and as a page."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table

from penstock_bench.report import words as report_words
from penstock_bench.report.page import write_report
from penstock_bench.report.records import Record, by_workload, records, records_json
from penstock_bench.report.verdicts import Verdict, verdicts
from penstock_bench.run.measurement import Measurement

__all__ = ["as_json", "as_lines", "as_table", "records", "write_report"]

CAPTION = "seconds: median of the trials; ratio: how many times this system's rows/s Penstock reaches"
_STYLES = {"reached": "green", "missed": "bold red", "not measured": "dim"}


def as_json(measurements: Sequence[Measurement]) -> str:
    """One object per workload and system."""
    return records_json(records(measurements))


def as_lines(measurements: Sequence[Measurement]) -> str:
    """One line of JSON per workload and system."""
    return "\n".join(msgspec.json.encode(record).decode() for record in records(measurements))


def as_table(measurements: Sequence[Measurement]) -> RenderableType:
    """What was measured, and below it which bars were reached."""
    found = records(measurements)
    judged = verdicts(found)
    return Group(_measured(found), *([_bars(judged)] if judged else []))


def _measured(found: Sequence[Record]) -> Table:
    table = Table(caption=CAPTION, caption_justify="left")
    for heading in ("workload", "system"):
        table.add_column(heading, no_wrap=True)
    for heading in ("rows/s", "seconds", "min..max", "ratio", "peak memory", "epochs"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("equal")
    for workload, here in by_workload(found).items():
        for number, record in enumerate(here):
            table.add_row("" if number else workload, *_cells(record), style=_style(record))
        table.add_section()
    return table


def _style(record: Record) -> str | None:
    """To refuse a question is no fault; to fail or to be wrong is."""
    return "dim" if record.refused is not None else "red" if record.trouble else None


def _cells(record: Record) -> list[str]:
    return [
        record.system,
        report_words.rate(record),
        report_words.seconds(record),
        report_words.spread(record),
        report_words.ratio(record),
        report_words.memory(record),
        report_words.epochs(record),
        escape(report_words.result(record)),
    ]


def _bars(judged: Sequence[Verdict]) -> Table:
    table = Table(title="bars", title_justify="left")
    for heading in ("workload", "against", "bar", "measured", ""):
        table.add_column(heading)
    for verdict in judged:
        cells = (verdict.bar.workload, verdict.bar.peer, verdict.bar.text, escape(verdict.text))
        table.add_row(*cells, f"[{_STYLES[verdict.outcome]}]{verdict.outcome}[/]")
    return table
