"""A relation of the batch oracle: a table of DuckDB, and how SQL names its columns and its times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.expr.text import quoted

ROW = "#row"  # the place of a row in the order of arrival at its source
MARK = (
    "#mark"  # in a table of a source: the punctuation that a row came behind, as an integer; null before there is any
)


@dataclass(frozen=True)
class Relation:
    """`types` are DuckDB's, by column in their order. Names with # are helpers of the oracle. ROW is among them while
    rows are still those of a source."""

    name: str
    types: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the query knows of."""
        return tuple(name for name in self.types if not name.startswith("#"))

    @property
    def helpers(self) -> tuple[str, ...]:
        """The columns that the query does not know of."""
        return tuple(name for name in self.types if name.startswith("#"))

    @property
    def numbered(self) -> bool:
        return ROW in self.types

    def integer(self, time: str) -> str:
        """A time as SQL for the integer it is inside the engine."""
        return f"epoch_us({quoted(time)})" if self.is_timestamp(time) else quoted(time)

    def is_timestamp(self, time: str) -> bool:
        return self.types[time].startswith("TIMESTAMP")


def of_integer(value: str, is_timestamp: bool) -> str:
    """SQL for the time that an integer stands for."""
    return f"make_timestamp({value})" if is_timestamp else value


def listed(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, names))


def computed(columns: Mapping[str, str], behind: str) -> str:
    """SQL for columns by name, computed by `behind` (FROM and so on). They get their names in a second step, so that no
    name of the result is taken for a column of the input."""
    names = [quoted(f"#column {n}") for n in range(len(columns))]
    made = ", ".join(f"{value} AS {name}" for value, name in zip(columns.values(), names, strict=True))
    named = ", ".join(f"{name} AS {quoted(new)}" for name, new in zip(names, columns, strict=True))
    return f"SELECT {named} FROM (SELECT {made} {behind})"


def exploded(rows: str, place: str, size: int, slide: int, offset: int) -> str:
    """SQL for rows that stand once for every window their integer `place` is in, with `#start` added."""
    last = f"{place} - ((({place} - {offset}) % {slide} + {slide}) % {slide})"
    windows = -(-size // slide)
    tried = f'SELECT *, {last} - {slide} * unnest(generate_series(0, {windows - 1})) AS "#start" FROM ({rows})'
    return f'SELECT * FROM ({tried}) WHERE "#start" + {size} > {place}'
