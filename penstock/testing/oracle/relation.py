"""A relation of the batch oracle: a DuckDB table, and how SQL names its columns and its times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.expr.text import quoted

ROW = "#row"  # place of a row in the order of arrival at its source
MARK = "#mark"  # in a source table: the punctuation that a row came behind, as an integer; null before the first


@dataclass(frozen=True)
class Relation:
    """A DuckDB table. `types` are DuckDB's, by column in order. Columns with # are helpers of the oracle; ROW is among
    them as long as the rows are those of a source."""

    name: str
    types: Mapping[str, str]

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that the query sees."""
        return tuple(name for name in self.types if not name.startswith("#"))

    @property
    def helpers(self) -> tuple[str, ...]:
        """Return the helper columns, which the query does not see."""
        return tuple(name for name in self.types if name.startswith("#"))

    @property
    def numbered(self) -> bool:
        """Return whether rows still have the numbers of their source."""
        return ROW in self.types

    def integer(self, time: str) -> str:
        """Return SQL for a time as the integer that the engine uses."""
        return f"epoch_us({quoted(time)})" if self.is_timestamp(time) else quoted(time)

    def is_timestamp(self, time: str) -> bool:
        return self.types[time].startswith("TIMESTAMP")


def of_integer(value: str, is_timestamp: bool) -> str:
    """Return SQL for the time of an integer."""
    return f"make_timestamp({value})" if is_timestamp else value


def listed(names: Iterable[str]) -> str:
    """Return the quoted names, separated by commas."""
    return ", ".join(map(quoted, names))


def computed(columns: Mapping[str, str], behind: str) -> str:
    """Return SQL for columns by name, computed over `behind` (FROM and so on). They are named in an outer SELECT, so
    that no name of the result is taken for an input column."""
    names = [quoted(f"#column {n}") for n in range(len(columns))]
    made = ", ".join(f"{value} AS {name}" for value, name in zip(columns.values(), names, strict=True))
    named = ", ".join(f"{name} AS {quoted(new)}" for name, new in zip(names, columns, strict=True))
    return f"SELECT {named} FROM (SELECT {made} {behind})"


def exploded(rows: str, place: str, size: int, slide: int, offset: int) -> str:
    """Return SQL for rows repeated once per window that contains their integer `place`, with `#start` added."""
    last = f"{place} - ((({place} - {offset}) % {slide} + {slide}) % {slide})"
    windows = -(-size // slide)
    tried = f'SELECT *, {last} - {slide} * unnest(generate_series(0, {windows - 1})) AS "#start" FROM ({rows})'
    return f'SELECT * FROM ({tried}) WHERE "#start" + {size} > {place}'
