"""The inputs of a join while it is planned, the equalities between them, and the keys that these make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.expr.tree import Call, Column, Expr
from penstock.expr.walk import all_of, columns_of, substitute
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Filter, Node
from penstock.plan.schema import columns_of_node, time_type, times_of

KeyPart = tuple[Expr, ...]  # one expression for each input, over the rows of the query


@dataclass(frozen=True)
class Unit:
    """An input of a join. `names` are the names of the node's columns in the rows of the query, in the node's order.

    For messages: `label` names the input, `written` are the columns as the user writes them.
    """

    node: Node
    names: tuple[str, ...]
    label: str
    written: tuple[str, ...]

    @property
    def own_to_row(self) -> Iterator[tuple[str, str]]:
        """Yield the node's own column names with their names in the rows."""
        return zip(columns_of_node(self.node), self.names, strict=True)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """Return the progressing attributes by their names in the rows, the default one first."""
        named = dict(self.own_to_row)
        return tuple(named[time] for time in times_of(self.node))

    @property
    def has_timestamps(self) -> bool:
        """Return whether the time column is a TIMESTAMP."""
        return bool(self.times) and bool(pa.types.is_timestamp(time_type(self.node)))

    @cached_property
    def schema(self) -> pa.Schema:
        """Return the schema of the node."""
        return node_schema(self.node)

    def inside(self, expression: Expr) -> Expr:
        """Rewrite an expression over the rows of the query to the node's own columns."""
        return substitute(expression, {row: Column(own) for own, row in self.own_to_row})

    def reads(self, expression: Expr) -> bool:
        """Return whether the expression reads a column of this input."""
        return not set(columns_of(expression)).isdisjoint(self.names)

    def filtered(self, conjuncts: tuple[Expr, ...]) -> Unit:
        """Return the input with only the rows that satisfy all conjuncts."""
        condition = all_of(map(self.inside, conjuncts))
        return self if condition is None else replace(self, node=Filter(self.node, condition))


def owner(name: str, units: Sequence[Unit]) -> int:
    """Return the index of the input that has the column. Precondition: one of them has it."""
    return next(index for index, unit in enumerate(units) if name in unit.names)


@dataclass(frozen=True)
class Side:
    """One side of an equality: an expression that reads only the input `unit`."""

    unit: int
    expression: Expr

    @property
    def same(self) -> tuple[int, str]:
        """Return a key that is equal for equal sides. Python takes 1, 1.0 and TRUE for equal; a query does not."""
        return self.unit, repr(self.expression)


Equality = tuple[Side, Side]


def equality_of(conjunct: Expr, units: Sequence[Unit]) -> Equality | None:
    """Return the two sides of an equality between two inputs; None if the condition is anything else."""
    match conjunct:
        case Call("=", (left, right)):
            sides = [_side(part, units) for part in (left, right)]
            if sides[0] is not None and sides[1] is not None and sides[0].unit != sides[1].unit:
                return sides[0], sides[1]
    return None


def _side(expression: Expr, units: Sequence[Unit]) -> Side | None:
    """Return the expression as a side; None if it reads no input or several."""
    read = [index for index, unit in enumerate(units) if unit.reads(expression)]
    return Side(read[0], expression) if len(read) == 1 else None


@dataclass(frozen=True)
class Key:
    """One part of a join key, with the equalities that imply it.

    `is_plain`: each input occurs with one expression only, so the part says all that the equalities say.
    """

    part: KeyPart
    equalities: tuple[Expr, ...] = ()
    is_plain: bool = True


@dataclass(frozen=True)
class Keys:
    """The key parts that cover all inputs. `is_whole`: every equality belongs to one of them."""

    complete: tuple[Key, ...]
    is_whole: bool


def keys_of(equalities: Iterable[Equality], inputs: int) -> Keys:
    """Return the keys that follow from the equalities; `a = b` and `b = c` form one key."""
    every = list(equalities)
    classes = _classes(every)
    complete = [sides for sides in classes if len({side.unit for side in sides}) == inputs]
    return Keys(tuple(_key(sides, every, inputs) for sides in complete), len(complete) == len(classes))


def _key(sides: Sequence[Side], equalities: Sequence[Equality], inputs: int) -> Key:
    """Return the key of a class of equal sides, with the first expression of each input."""
    within = [equality for equality in equalities if equality[0] in sides]
    part = tuple(_first(sides, unit).expression for unit in range(inputs))
    conditions = tuple(Call("=", (left.expression, right.expression)) for left, right in within)
    return Key(part, conditions, len(sides) == inputs)


def _classes(equalities: Iterable[Equality]) -> list[list[Side]]:
    """Return the equivalence classes of sides under the equalities, in the order of their first occurrence."""
    classes: list[dict[tuple[int, str], Side]] = []
    for equality in equalities:
        touched = [known for known in classes if any(side.same in known for side in equality)]
        merged = {key: side for known in touched for key, side in known.items()}
        merged |= {side.same: side for side in equality}
        position = classes.index(touched[0]) if touched else len(classes)
        classes = [known for known in classes if not any(known is other for other in touched)]
        classes.insert(position, merged)
    return [list(known.values()) for known in classes]


def _first(sides: Sequence[Side], unit: int) -> Side:
    return next(side for side in sides if side.unit == unit)


def typed(key: Key, units: Sequence[Unit]) -> tuple[KeyPart, tuple[Expr, ...]]:
    """Return a key part over the inputs' own columns, cast to one type, and the conditions that remain to be checked.

    If types differ, two values can both equal a third and not each other, so all equalities are checked.
    """
    own = [unit.inside(expression) for unit, expression in zip(units, key.part, strict=True)]
    types = [type_of(expression, unit.schema) for unit, expression in zip(units, own, strict=True)]
    wanted = common_type(types, "the keys of a join")
    part = tuple(cast_to(expression, has, wanted) for expression, has in zip(own, types, strict=True))
    is_implied = len(key.equalities) == 1 or (key.is_plain and len(set(types)) == 1)
    return part, () if is_implied else key.equalities
