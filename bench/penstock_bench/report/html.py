"""The frame of a report's page: one file that needs nothing else, readable on light and on dark screens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NamedTuple

_STYLE = """
:root { color-scheme: light dark; --ink: #1b2026; --soft: #5d6772; --paper: #ffffff; --line: #d9dee4; --band: #f4f6f8;
  --good: #14713d; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --soft: #9aa5b1; --paper: #14181c; --line: #343c45;
  --band: #1c2228; --good: #63c78d; --bad: #ff8a80; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 76em;
  margin: 2em auto; padding: 0 1em; }
h1 { margin-bottom: .2em; } h2 { margin-top: 2em; border-bottom: 1px solid var(--line); }
table { border-collapse: collapse; margin: .8em 0; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .8em; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; color: var(--soft); } tr.ours { background: var(--band); font-weight: 600; }
tr.missed { color: var(--bad); font-weight: 600; } img { max-width: 100%; }
td.text, th.text { text-align: left; } td.good { color: var(--good); } td.bad { color: var(--bad); font-weight: 600; }
td.soft, .soft { color: var(--soft); } .scroll { overflow-x: auto; }
pre { background: var(--band); padding: .8em; overflow-x: auto; white-space: pre-wrap; } 
svg { display: block; max-width: 100%; height: auto; }
"""


class Cell(NamedTuple):
    """A cell of a table. `kind` is a class of the style: text, good, bad, soft; several are separated by spaces."""

    text: str
    kind: str = ""


class Row(NamedTuple):
    cells: Sequence[Cell]
    kind: str = ""


def page(title: str, parts: Iterable[str]) -> str:
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
{"".join(parts)}</body></html>
"""


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n"


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>\n"


def code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>\n"


def table(headings: Sequence[Cell], rows: Iterable[Row]) -> str:
    head = "".join(f"<th{_class(cell.kind)}>{escape(cell.text)}</th>" for cell in headings)
    body = "".join(f"<tr{_class(row.kind)}>{''.join(map(_cell, row.cells))}</tr>\n" for row in rows)
    return f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>\n'


def _cell(cell: Cell) -> str:
    return f"<td{_class(cell.kind)}>{escape(cell.text)}</td>"


def _class(kind: str) -> str:
    return f' class="{escape(kind)}"' if kind else ""
