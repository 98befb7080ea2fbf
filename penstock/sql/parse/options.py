"""Read the options of `WITH (key = value, ...)` and the setting of `SET key = value` from their trees."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sqlglot import exp

from penstock.errors import ConfigError, QueryError
from penstock.settings import yes_or_no
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import place_of

Value = str | int | float | bool


@dataclass(frozen=True)
class Options:
    """The options of a WITH clause, as text. `places` are the offsets of the keys in the script."""

    values: Mapping[str, str]
    places: Mapping[str, int]

    def without(self, names: Collection[str]) -> Options:
        """Return the options except those with the given names."""
        return Options({name: value for name, value in self.values.items() if name not in names}, self.places)


def options_of(clause: exp.Properties, text: ScriptText) -> Options:
    """Return the options of a WITH clause; each key may occur once."""
    values: dict[str, str] = {}
    places: dict[str, int] = {}
    for option in clause.expressions:
        key, value = option.name, option.args["value"]
        if key in values:
            raise text.error(f"option `{key}` is given twice", place_of(option), hint="leave one of them out")
        values[key] = str(value.this).lower() if isinstance(value, exp.Boolean) else value.name
        places[key] = place_of(option)
    return Options(values, places)


def flag(name: str, text: str) -> bool:
    """Return the value of an option that is true or false."""
    try:
        return yes_or_no(text)
    except ConfigError as error:
        raise QueryError(f"`{name}` cannot be `{text}`", detail=error.what, hint=error.hint) from error


def setting_of(assignment: exp.Property) -> tuple[str, Value]:
    """Return the key and the value of a SET statement: a boolean, a number or text."""
    value = assignment.args["value"]
    if isinstance(value, exp.Boolean):
        return assignment.name, bool(value.this)
    written: str = value.name
    if not isinstance(value, exp.Literal) or value.is_string:
        return assignment.name, written
    is_whole = written.lstrip("-").isdigit() and len(written) < 20
    return assignment.name, int(written) if is_whole else float(written)
