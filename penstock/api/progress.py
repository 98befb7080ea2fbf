"""Progress by punctuation, as users write it; `slack` and `ordered` stand beside the windows."""

from __future__ import annotations

from penstock.api.columns import ColumnExpr, as_expr
from penstock.config import span
from penstock.errors import ConfigError
from penstock.progress.rules import Punctuated


def punctuated(by: ColumnExpr, *, keep: bool = False) -> Punctuated:
    """Rows for which `by` holds say that no more rows below their time will come: `punctuated(col("kind") == "mark")`.
    They are taken out of the stream, unless told to `keep` them as rows like others."""
    return Punctuated(as_expr(by), keep)


def idle_span(idle: str | int | None) -> int | None:
    """After how long without rows a source counts as idle, in microseconds: "10s"; None: never."""
    microseconds = None if idle is None else span(idle)
    if microseconds is not None and microseconds <= 0:
        raise ConfigError(
            "the time after which a source is idle must be above zero",
            detail=f"it is {idle!r}",
            hint='write it as in idle="10s", or leave it out to wait for the source however long it takes',
        )
    return microseconds
