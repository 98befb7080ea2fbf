"""The inputs of a join while it is planned, the equalities between them, and the keys that these make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from penstock.expr.tree import Call, Column, Expr, columns_of, substitute
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.plan.compile.subqueries import node_schema
from penstock.plan.logical import Filter, Node
from penstock.plan.schema import columns_of_node, time_type, times_of
from penstock.sql.names.conjuncts import all_of

KeyPart = tuple[Expr, ...]  # one expression for each input, over the rows of the query


@dataclass(frozen=True)
class Unit:
    """`names` are what the columns of the node are called in the rows of the query. For messages there are `label`, and
    `written`: how the user writes the columns."""

    node: Node
    names: tuple[str, ...]
    label: str
    written: tuple[str, ...]

    @property
    def own_to_row(self) -> Iterator[tuple[str, str]]:
        """The node's own columns, and what they are called in the rows."""
        return zip(columns_of_node(self.node), self.names, strict=True)

    @cached_property
    def times(self) -> tuple[str, ...]:
        """The progressing attributes as they are called in the rows, the usual one first."""
        named = dict(self.own_to_row)
        return tuple(named[time] for time in times_of(self.node))

    @property
    def has_timestamps(self) -> bool:
        return bool(self.times) and bool(pa.types.is_timestamp(time_type(self.node)))

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the node itself."""
        return node_schema(self.node)

    def inside(self, expression: Expr) -> Expr:
        """An expression over the rows of the query as one over the node's own columns."""
        return substitute(expression, {row: Column(own) for own, row in self.own_to_row})

    def reads(self, expression: Expr) -> bool:
        """Whether an expression reads a column of this input."""
        return not set(columns_of(expression)).isdisjoint(self.names)

    def filtered(self, conjuncts: tuple[Expr, ...]) -> Unit:
        """The rows for which all of the conditions hold."""
        condition = all_of(map(self.inside, conjuncts))
        return self if condition is None else replace(self, node=Filter(self.node, condition))


def owner(name: str, units: Sequence[Unit]) -> int:
    """The input whose column this is."""
    return next(index for index, unit in enumerate(units) if name in unit.names)


@dataclass(frozen=True)
class Side:
    """An expression that reads one input only."""

    unit: int
    expression: Expr

    @property
    def same(self) -> tuple[int, str]:
        """Equal for the same side. Python takes 1, 1.0 and TRUE for equal; a query does not."""
        return self.unit, repr(self.expression)


Equality = tuple[Side, Side]


def equality_of(conjunct: Expr, units: Sequence[Unit]) -> Equality | None:
    """The two sides of an equality between two inputs; None where the condition is something else."""
    match conjunct:
        case Call("=", (left, right)):
            sides = [_side(part, units) for part in (left, right)]
            if sides[0] is not None and sides[1] is not None and sides[0].unit != sides[1].unit:
                return sides[0], sides[1]
    return None


def _side(expression: Expr, units: Sequence[Unit]) -> Side | None:
    read = [index for index, unit in enumerate(units) if unit.reads(expression)]
    return Side(read[0], expression) if len(read) == 1 else None


@dataclass(frozen=True)
class Key:
    """A part of the key of a join, from the equalities that say so. `is_plain`: they are about no other expressions
    than those of the part."""

    part: KeyPart
    equalities: tuple[Expr, ...] = ()
    is_plain: bool = True


@dataclass(frozen=True)
class Keys:
    """The keys that all inputs have. `is_whole`: every equality is part of one."""

    complete: tuple[Key, ...]
    is_whole: bool


def keys_of(equalities: Iterable[Equality], inputs: int) -> Keys:
    """The keys that equalities make, where `a = b` and `b = c` make one key."""
    every = list(equalities)
    classes = _classes(every)
    complete = [sides for sides in classes if len({side.unit for side in sides}) == inputs]
    return Keys(tuple(_key(sides, every, inputs) for sides in complete), len(complete) == len(classes))


def _key(sides: Sequence[Side], equalities: Sequence[Equality], inputs: int) -> Key:
    within = [equality for equality in equalities if equality[0] in sides]
    part = tuple(_first(sides, unit).expression for unit in range(inputs))
    conditions = tuple(Call("=", (left.expression, right.expression)) for left, right in within)
    return Key(part, conditions, len(sides) == inputs)


def _classes(equalities: Iterable[Equality]) -> list[list[Side]]:
    """The sides that are all equal, in the order in which they are met."""
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
    """A key part over the inputs' own columns, in one type, and what else has to be checked.

    Where types differ, two values can be equal to a third and not to each other: so all equalities are checked then.
    """
    own = [unit.inside(expression) for unit, expression in zip(units, key.part, strict=True)]
    types = [type_of(expression, unit.schema) for unit, expression in zip(units, own, strict=True)]
    wanted = common_type(types, "the keys of a join")
    part = tuple(cast_to(expression, has, wanted) for expression, has in zip(own, types, strict=True))
    is_implied = len(key.equalities) == 1 or (key.is_plain and len(set(types)) == 1)
    return part, () if is_implied else key.equalities
