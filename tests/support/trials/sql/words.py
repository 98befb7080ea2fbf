"""The smallest parts of a trial's SQL: expressions, names and spans."""

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
    """An expression on one line: the lines of a case are moved and trimmed, which would change its constants."""
    written = text(expression)
    if len(written.splitlines()) > 1:
        raise NoSql("a constant has a line break")
    return written


def item(named: Named) -> str:
    """An item of a select list."""
    plain = named.expression == Column(named.name)
    return quoted(named.name) if plain else f"{words(named.expression)} AS {quoted(named.name)}"


def listed(parts: Iterable[str]) -> str:
    return ", ".join(parts)


def span(length: int, is_interval: bool) -> str:
    """A stretch of time: an INTERVAL for a TIMESTAMP, a number for a BIGINT."""
    return text(Literal(timedelta(microseconds=length) if is_interval else length))


def has_timestamps(node: Node, time: str) -> bool:
    return bool(pa.types.is_timestamp(node_schema(node).field(time).type))
