"""How the rows of a source tell how far it has come, as users write it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.api.columns import ColumnExpr, as_operand
from penstock.api.lengths import Length, as_length, length_over, real_length
from penstock.api.sql_text import expression_of
from penstock.errors import ConfigError
from penstock.expr.evaluate.scalar import check_predicate
from penstock.expr.tree import Expr
from penstock.progress.rules import Ordered, Punctuated, Rule, Slack


@dataclass(frozen=True)
class SlackSpec:
    """A slack that does not know yet what its time column counts."""

    by: Length


@dataclass(frozen=True)
class PunctuatedSpec:
    """Punctuation that does not know its columns yet; a predicate that is a string is read then."""

    predicate: Expr | str
    keep: bool


RuleSpec = Rule | SlackSpec | PunctuatedSpec


def slack(by: Length) -> SlackSpec:
    """Rows come at most `by` behind the latest one seen: `slack("2s")`. A number is one of a BIGINT time."""
    return SlackSpec(as_length(by, "the slack"))


def ordered() -> Ordered:
    """Rows come in order of time."""
    return Ordered()


def punctuated(by: ColumnExpr | str, *, keep: bool = False) -> PunctuatedSpec:
    """Rows for which `by` holds say that no more rows below their time will come: `punctuated(col("kind") == "mark")`,
    or as SQL text, `punctuated("kind = 'mark'")`. They are taken out of the stream, unless told to `keep` them as rows
    like others."""
    return PunctuatedSpec(as_operand(by), keep)


def rule_over(told: RuleSpec, schema: pa.Schema, time: str) -> Rule:
    """The rule for a source with these columns, whose time is `time`."""
    match told:
        case SlackSpec(by):
            return Slack(length_over(by, schema.field(time).type, "the slack"))
        case PunctuatedSpec(by, keep):
            told = Punctuated(expression_of(by, schema.names, "punctuated(...)"), keep)
    if isinstance(told, Punctuated):
        check_predicate(schema, told.predicate)
    return told


def idle_span(idle: Length | None) -> int | None:
    """After how long without rows a source counts as idle, in microseconds: "10s"; None: never."""
    microseconds = None if idle is None else real_length(idle, "the time after which a source is idle")
    if microseconds is not None and microseconds <= 0:
        raise ConfigError(
            "the time after which a source is idle must be above zero",
            detail=f"it is {idle!r}",
            hint='write it as in idle="10s", or leave it out to wait for the source however long it takes',
        )
    return microseconds
