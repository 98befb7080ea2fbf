"""Progress rules of a source as users write them: how its rows tell how far event time has advanced."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from penstock.api.columns import ColumnExpr, as_operand
from penstock.api.lengths import Length, as_length, length_over, real_length
from penstock.api.sql_text import expression_of
from penstock.expr.evaluate.scalar import check_predicate
from penstock.expr.tree import Expr
from penstock.progress.idle import idle_timeout
from penstock.progress.mark import Ordered, Punctuated, Rule, Slack


@dataclass(frozen=True)
class SlackSpec:
    """A slack (watermark delay) that is not yet bound to a time column."""

    by: Length


@dataclass(frozen=True)
class PunctuatedSpec:
    """Punctuation that is not yet bound to columns. A predicate that is a string is parsed when it is bound."""

    predicate: Expr | str
    keep: bool


RuleSpec = Rule | SlackSpec | PunctuatedSpec


def slack(by: Length) -> SlackSpec:
    """Set the watermark delay: rows arrive at most `by` behind the latest time seen, as in `slack("2s")`. A number
    counts in the unit of a BIGINT time."""
    return SlackSpec(as_length(by, "the slack"))


def ordered() -> Ordered:
    """Declare that rows arrive in order of time."""
    return Ordered()


def punctuated(by: ColumnExpr | str, *, keep: bool = False) -> PunctuatedSpec:
    """Read punctuation from the rows: a row for which `by` holds states that no more rows below its time follow, as in
    `punctuated(col("kind") == "mark")` or, as SQL text, `punctuated("kind = 'mark'")`. Such rows are removed from the
    stream unless `keep`."""
    return PunctuatedSpec(as_operand(by), keep)


def rule_over(spec: RuleSpec, schema: pa.Schema, time: str) -> Rule:
    """Bind a progress rule to a source with this schema and time column."""
    match spec:
        case SlackSpec(by):
            return Slack(length_over(by, schema.field(time).type, "the slack"))
        case PunctuatedSpec(by, keep):
            spec = Punctuated(expression_of(by, schema.names, "punctuated(...)"), keep)
    if isinstance(spec, Punctuated):
        check_predicate(schema, spec.predicate)
    return spec


def idle_span(idle: Length | None) -> int | None:
    """Return in microseconds how long a source has no rows before it counts as idle; None if it never does."""
    return None if idle is None else idle_timeout(real_length(idle, "the time after which a source is idle"), idle)
