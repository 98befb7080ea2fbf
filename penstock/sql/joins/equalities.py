"""Equalities between the inputs of a join, and the join keys that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.expr.tree import Call, Expr
from penstock.plan.common_types import cast_to, common_type, type_of
from penstock.sql.joins.unit import Unit

KeyPart = tuple[Expr, ...]  # one expression for each input, over the rows of the query


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
