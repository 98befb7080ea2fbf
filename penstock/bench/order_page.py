"""The report of the experiments on order: an HTML page with a picture and a table for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from penstock.bench.order import Comparison
from penstock.bench.order_plots import write_plot
from penstock.bench.order_report import CAPTION, as_json, cells, headings, title
from penstock.version import __version__

_STYLE = """body { font: 15px/1.5 system-ui, sans-serif; max-width: 72em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em; text-align: right; border-bottom: 1px solid #ddd; }
img { max-width: 100%; } .missed { color: #b00020; font-weight: bold; }"""


def write_report(compared: Sequence[Comparison], folder: Path) -> Path:
    """Write the page, its pictures and the JSON into a folder; gives the path of the page."""
    folder.mkdir(parents=True, exist_ok=True)
    sections = [_section(list(group), folder) for _, group in groupby(compared, key=_name)]
    (folder / "order.json").write_text(as_json(compared) + "\n", encoding="utf-8")
    page = folder / "index.html"
    page.write_text(_page(sections), encoding="utf-8")
    return page


def _name(comparison: Comparison) -> str:
    return comparison.in_order.experiment.name


def _page(sections: Sequence[str]) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Penstock: in order and out of order</title>
<style>{_STYLE}</style></head><body>
<h1>In order and out of order</h1>
<p>Penstock {escape(__version__)}. {escape(CAPTION)}.</p>
{"".join(sections)}</body></html>
"""


def _section(compared: Sequence[Comparison], folder: Path) -> str:
    experiment = compared[0].in_order.experiment
    picture = f"figure-{experiment.figure}-{experiment.name}.png"
    write_plot(compared, folder / picture)
    heading = escape(title(compared[0]))
    return f"""<h2>{heading}</h2>
<img src="{escape(picture)}" alt="{heading}">
<table>{"".join(_rows(compared))}</table>
"""


def _rows(compared: Sequence[Comparison]) -> Iterator[str]:
    yield f"<tr>{''.join(f'<th>{escape(heading)}</th>' for heading in headings(compared[0]))}</tr>\n"
    for comparison in compared:
        mark = "" if comparison.holds else ' class="missed"'
        yield f"<tr{mark}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells(comparison))}</tr>\n"
