"""What names mean behind a join, and the columns that USING makes one of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from penstock.expr.tree import Call, Expr
from penstock.sql.scope import Scope
from penstock.sql.tree import place_of


@dataclass(frozen=True)
class Shared:
    """A column of USING: its name, and what it is on each side."""

    name: str
    left: Expr
    right: Expr

    @property
    def equality(self) -> Expr:
        return Call("=", (self.left, self.right))

    def value(self, kind: str) -> Expr:
        """The value behind a join: of the side that is there."""
        match kind:
            case "right":
                return self.right
            case "full":
                return Call("coalesce", (self.left, self.right))
        return self.left


def shared_columns(using: Sequence[exp.Expr], left: Scope, right: Scope) -> list[Shared]:
    """The columns of USING."""
    return [
        Shared(name.name, left.column([name.name], place_of(name)), right.column([name.name], place_of(name)))
        for name in using
    ]


def both_scopes(left: Scope, right: Scope, offset: int) -> Scope:
    """The streams of both sides."""
    names = {part.name.lower() for part in left.parts if part.name}
    twice = next((part.name for part in right.parts if part.name.lower() in names), None)
    if twice is not None:
        raise left.text.error(f"two streams are called `{twice}`", offset, hint="give one of them an alias")
    return replace(left, parts=left.parts + right.parts, merged={**left.merged, **right.merged})


def visible_scope(kind: str, left: Scope, both: Scope, shared: Sequence[Shared]) -> Scope:
    """What can be read behind a join; of a semi or an anti join that is the first side only."""
    if kind in ("semi", "anti"):
        return left
    return replace(both, merged={**both.merged, **{column.name: column.value(kind) for column in shared}})
