"""The smallest parts of a trial's SQL: expressions, names and spans of time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pyarrow as pa

from penstock.expr.text import quoted, text
from penstock.expr.tree import Column, Expr, Literal, Named
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Node


class NoSql(Exception):
    """A trial cannot be written as a case in SQL; the message says why."""


def words(expression: Expr) -> str:
    """Return an expression as SQL on one line, because the lines of a case are indented and trimmed, which would change
    constants."""
    written = text(expression)
    if len(written.splitlines()) > 1:
        raise NoSql("a constant has a line break")
    return written


def item(named: Named) -> str:
    """Return an item of a select list."""
    plain = named.expression == Column(named.name)
    return quoted(named.name) if plain else f"{words(named.expression)} AS {quoted(named.name)}"


def listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def span(length: int, is_interval: bool) -> str:
    """Return a span of time: an INTERVAL for a TIMESTAMP, a number for a BIGINT."""
    return text(Literal(timedelta(microseconds=length) if is_interval else length))


def has_timestamps(node: Node, time: str) -> bool:
    """Return whether a time column is a TIMESTAMP."""
    return bool(pa.types.is_timestamp(node_schema(node).field(time).type))
