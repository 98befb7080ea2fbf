"""The report of the experiments on order: an HTML page with a picture and a table for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from penstock.version import __version__
from penstock_bench.order.comparison import Comparison
from penstock_bench.order.plots import write_plot
from penstock_bench.order.report import CAPTION, as_json, cells, headings, title
from penstock_bench.report.html import Cell, Row, heading, page, paragraph, table


def write_report(compared: Sequence[Comparison], folder: Path) -> Path:
    """Write the page, its pictures and the JSON into a folder; gives the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_section(list(group), folder) for _, group in groupby(compared, key=_name)]
    (folder / "order.json").write_text(as_json(compared) + "\n", encoding="utf-8")
    written = folder / "index.html"
    written.write_text(_page(sections), encoding="utf-8")
    return written


def _name(comparison: Comparison) -> str:
    return comparison.in_order.experiment.name


def _page(sections: Sequence[str]) -> str:
    return page("In order and out of order", [paragraph(f"Penstock {__version__}. {CAPTION}.", "soft"), *sections])


def _section(compared: Sequence[Comparison], folder: Path) -> str:
    experiment = compared[0].in_order.experiment
    picture = f"figure-{experiment.figure}-{experiment.name}.png"
    write_plot(compared, folder / picture)
    image = f'<img src="{escape(picture)}" alt="{escape(title(compared[0]))}">\n'
    return heading(title(compared[0])) + image + table(list(map(Cell, headings(compared[0]))), _rows(compared))


def _rows(compared: Sequence[Comparison]) -> Iterator[Row]:
    for comparison in compared:
        yield Row(list(map(Cell, cells(comparison))), "" if comparison.holds else "missed")
