"""Tables in Markdown, and types as they are written in them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = list(heads)
    lines = [titles, ["---"] * len(titles), *(list(row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(annotation: Any) -> str:
    return escaped(type_name(annotation))


def escaped(text: str) -> str:
    return text.replace("|", "\\|")


def type_name(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
