"""The scope of an expression: the meaning of names at one place of a query."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

from sqlglot import exp

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Call, Column, Expr, Literal
from penstock.plan.schema import WINDOW_COLUMNS
from penstock.sql.parse.place import ScriptText

CallHook = Callable[[exp.Expr], Expr]


@dataclass(frozen=True)
class NamedRelation:
    """A stream of FROM under its alias. `columns` maps the names of its columns to their names in the rows of the
    query."""

    name: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Scope:
    """The columns that an expression can read.

    `merged` are the columns of USING, which stand for both sides. `computed` are names of values that are not input
    columns, such as `window_start`; input columns take precedence. `elsewhere` has hints for names that are valid only
    in other clauses. `on_aggregate` and `on_over` translate aggregate calls and calls with OVER; without them such
    calls are errors.

    Invariant: the parts have different names, and all columns have different names in the rows.
    """

    text: ScriptText
    parts: tuple[NamedRelation, ...]
    merged: Mapping[str, Expr] = field(default_factory=dict)
    computed: Mapping[str, Expr] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    on_aggregate: CallHook | None = None
    why_no_aggregate: str = "an aggregate is not allowed here"
    on_over: CallHook | None = None

    def column(self, names: Sequence[str], offset: int) -> Expr:
        """Return the expression of a dotted name; case matters only if two columns differ in nothing else.

        The names are first tried as a stream and its column, then as a column and its fields.
        """
        first, *rest = names
        part = next((part for part in self.parts if rest and part.name.lower() == first.lower()), None)
        if part is not None and (found := _with_fields(rest, lambda name: self._own(name, part))) is not None:
            return found
        if (found := _with_fields(names, lambda name: self._anywhere(name, offset))) is not None:
            return found
        if part is None and rest:
            hint = did_you_mean(first, [*(part.name for part in self.parts if part.name), *self._known()])
            raise self.text.error(f"unknown stream `{first}`", offset, hint=hint)
        raise self._unknown(rest[0], (part,), offset) if part is not None else self._unknown(first, self.parts, offset)

    def _anywhere(self, name: str, offset: int) -> Expr | None:
        """Return the column of any stream, the USING column or the computed value with this name; None if there is
        none."""
        if (merged := spelled(name, self.merged)) is not None:
            return self.merged[merged]
        found = [(part, own) for part in self.parts if (own := spelled(name, part.columns)) is not None]
        if len(found) > 1:
            raise self._ambiguous(name, found, offset)
        if found:
            part, own = found[0]
            return Column(part.columns[own])
        meant = spelled(name, self.computed)
        return None if meant is None else self.computed[meant]

    def part(self, name: str, offset: int) -> NamedRelation:
        """Return the stream called `name`."""
        found = next((part for part in self.parts if part.name.lower() == name.lower()), None)
        if found is None:
            hint = did_you_mean(name, [part.name for part in self.parts if part.name])
            raise self.text.error(f"unknown stream `{name}`", offset, hint=hint)
        return found

    def all_columns(self) -> Iterator[tuple[str, Expr]]:
        """Yield name and value of the columns that `*` stands for; a column of USING comes once."""
        shown: set[str] = set()
        for part in self.parts:
            for own, name in part.columns.items():
                merged = spelled(own, self.merged)
                if merged is None:
                    yield name, Column(name)
                elif merged not in shown:
                    shown.add(merged)
                    yield merged, self.merged[merged]

    def names_of(self, column: Column) -> tuple[str, ...]:
        """Return the candidate result names of a column, best first: its name in the stream, then with the stream's
        prefix."""
        for part in self.parts:
            for own, name in part.columns.items():
                if name == column.name:
                    return (own,) if len(self.parts) == 1 else (own, f"{part.name}_{own}")
        return (column.name,)

    def _own(self, name: str, part: NamedRelation) -> Expr | None:
        """Return the column of one stream, or the window column if it is the only stream; None if there is none."""
        if (own := spelled(name, part.columns)) is not None:
            return Column(part.columns[own])
        meant = spelled(name, self.computed)
        return self.computed[meant] if meant in WINDOW_COLUMNS and len(self.parts) == 1 else None

    def _known(self) -> list[str]:
        return [own for part in self.parts for own in part.columns]

    def _ambiguous(self, name: str, found: Iterable[tuple[NamedRelation, str]], offset: int) -> QueryError:
        choices = " or ".join(f"`{part.name}.{own}`" for part, own in found)
        return self.text.error(
            f"column `{name}` is ambiguous: several streams have it", offset, hint=f"write {choices}"
        )

    def _unknown(self, name: str, parts: tuple[NamedRelation, ...], offset: int) -> QueryError:
        where = f" in stream `{parts[0].name}`" if len(parts) == 1 and parts[0].name else ""
        known = [own for part in parts for own in part.columns]
        hint = self.elsewhere.get(name.lower()) or did_you_mean(name, [*known, *self.computed])
        return self.text.error(f"unknown column `{name}`{where}", offset, hint=hint)


def _with_fields(names: Sequence[str], resolve: Callable[[str], Expr | None]) -> Expr | None:
    """Resolve as many leading names as possible as a column, and the remaining ones as fields of its struct."""
    for count in range(len(names), 0, -1):
        found = resolve(".".join(names[:count]))
        if found is not None:
            return reduce(field_of, names[count:], found)
    return None


def field_of(expression: Expr, name: str) -> Expr:
    """Return the expression for a field of a struct."""
    return Call("struct_extract", (expression, Literal(name)))


def stream_scope(text: ScriptText, stream: str, columns: Iterable[str]) -> Scope:
    """Return the scope of one stream, whose columns keep their names."""
    return Scope(text, (NamedRelation(stream, {name: name for name in columns}),))


def spelled(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is meant: the equal one, or the only one that differs in case; else None."""
    candidates = [k for k in known if k.lower() == name.lower()]
    if name in candidates:
        return name
    return candidates[0] if len(candidates) == 1 else None
