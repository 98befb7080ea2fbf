"""Equalities between the inputs of a join, and the keys they make."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.expr.tree import Call, Expr
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.sql.joins.unit import Unit

KeyPart = tuple[Expr, ...]  # one expression for each input, over the rows of the query


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
