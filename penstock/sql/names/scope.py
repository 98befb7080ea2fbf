"""What names mean at one place of a query."""

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
class Part:
    """A stream of FROM under its alias: what its columns are called there, and what they are called in the rows."""

    name: str
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Scope:
    """The columns an expression may read.

    `merged` are the columns of USING, which stand for those of both sides. `computed` are names that stand for values
    which are no columns of the input, as `window_start`; a column of the input goes before them. `elsewhere` says of
    names that mean nothing here where to write them. `on_aggregate` and `on_over` take in the aggregate calls and
    those with OVER; without them they are an error.

    Invariant: the parts have different names, and all columns different names in the rows.
    """

    text: ScriptText
    parts: tuple[Part, ...]
    merged: Mapping[str, Expr] = field(default_factory=dict)
    computed: Mapping[str, Expr] = field(default_factory=dict)
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    on_aggregate: CallHook | None = None
    why_no_aggregate: str = "an aggregate cannot stand here"
    on_over: CallHook | None = None

    def column(self, names: Sequence[str], offset: int) -> Expr:
        """What a name means; the case of letters matters only where two columns differ in nothing else. Names with dots
        between them are a stream and its column, before they are a column and its fields."""
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
        """A column of any stream, under one name."""
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

    def part(self, name: str, offset: int) -> Part:
        """The stream called `name`."""
        found = next((part for part in self.parts if part.name.lower() == name.lower()), None)
        if found is None:
            hint = did_you_mean(name, [part.name for part in self.parts if part.name])
            raise self.text.error(f"unknown stream `{name}`", offset, hint=hint)
        return found

    def all_columns(self) -> Iterator[tuple[str, Expr]]:
        """What `*` stands for; a column of USING comes once."""
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
        """What a column of the rows is called in a result, best first: as the user calls it, then with its stream."""
        for part in self.parts:
            for own, name in part.columns.items():
                if name == column.name:
                    return (own,) if len(self.parts) == 1 else (own, f"{part.name}_{own}")
        return (column.name,)

    def _own(self, name: str, part: Part) -> Expr | None:
        """A column of one stream."""
        if (own := spelled(name, part.columns)) is not None:
            return Column(part.columns[own])
        meant = spelled(name, self.computed)
        return self.computed[meant] if meant in WINDOW_COLUMNS and len(self.parts) == 1 else None

    def _known(self) -> list[str]:
        return [own for part in self.parts for own in part.columns]

    def _ambiguous(self, name: str, found: Iterable[tuple[Part, str]], offset: int) -> QueryError:
        choices = " or ".join(f"`{part.name}.{own}`" for part, own in found)
        return self.text.error(f"column `{name}` stands in several streams", offset, hint=f"write {choices}")

    def _unknown(self, name: str, parts: tuple[Part, ...], offset: int) -> QueryError:
        where = f" in stream `{parts[0].name}`" if len(parts) == 1 and parts[0].name else ""
        known = [own for part in parts for own in part.columns]
        hint = self.elsewhere.get(name.lower()) or did_you_mean(name, [*known, *self.computed])
        return self.text.error(f"unknown column `{name}`{where}", offset, hint=hint)


def _with_fields(names: Sequence[str], resolve: Callable[[str], Expr | None]) -> Expr | None:
    """The column that as many of the names as possible are, and the fields of it that the others are."""
    for count in range(len(names), 0, -1):
        found = resolve(".".join(names[:count]))
        if found is not None:
            return reduce(field_of, names[count:], found)
    return None


def field_of(expression: Expr, name: str) -> Expr:
    """A field of a struct."""
    return Call("struct_extract", (expression, Literal(name)))


def stream_scope(text: ScriptText, stream: str, columns: Iterable[str]) -> Scope:
    """The columns of one stream, under their own names."""
    return Scope(text, (Part(stream, {name: name for name in columns}),))


def spelled(name: str, known: Iterable[str]) -> str | None:
    """The known name that is meant: the same one, or the only one that differs in case."""
    candidates = [k for k in known if k.lower() == name.lower()]
    if name in candidates:
        return name
    return candidates[0] if len(candidates) == 1 else None
