"""What names mean at one place of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expressions import Column, Expr
from penstock.sql.place import ScriptText

AggregateHook = Callable[[exp.Expr], Expr]


@dataclass(frozen=True)
class Scope:
    """The columns an expression may read.

    `computed` are names that stand for values which are no columns of the input, as `window_start`; a column of the
    input goes before them. `elsewhere` says of names that mean nothing here where to write them. `on_aggregate` takes
    in the aggregate calls; without it they are an error, which says why.
    """

    text: ScriptText
    stream: str
    columns: tuple[str, ...]
    computed: dict[str, Expr] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)
    on_aggregate: AggregateHook | None = None
    why_no_aggregate: str = "an aggregate cannot stand here"

    def column(self, name: str, qualifier: str, offset: int) -> Expr:
        """What a name means; the case of letters matters only where two columns differ in nothing else."""
        if qualifier and qualifier.lower() != self.stream.lower():
            raise self.text.error(f"unknown stream `{qualifier}`", offset, hint=did_you_mean(qualifier, [self.stream]))
        if (found := spelled(name, self.columns)) is not None:
            return Column(found)
        if (meant := spelled(name, self.computed)) is not None and not qualifier:
            return self.computed[meant]
        raise self._unknown(name, offset)

    def _unknown(self, name: str, offset: int) -> QueryError:
        where = f" in stream `{self.stream}`" if self.stream else ""
        hint = self.elsewhere.get(name.lower()) or did_you_mean(name, [*self.columns, *self.computed])
        return self.text.error(f"unknown column `{name}`{where}", offset, hint=hint)


def spelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: the same one, or the only one that differs in case."""
    candidates = [k for k in known if k.lower() == name.lower()]
    if name in candidates:
        return name
    return candidates[0] if len(candidates) == 1 else None
