"""Whether the rows of a file of JSON lines have the columns that are read from it.

A key that one row lacks is null there; a key that all rows of a file lack is most likely written in another way, so it
is an error, unless the source says `missing = 'null'`. Columns and fields of structs are looked for from the beginning
of the file until each of them is found, which is mostly in its first line, and at the latest at its end. The answer is
one about the whole file: it does not depend on how the file is cut into splits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pyarrow as pa

from penstock.connectors.files.compressed import open_text
from penstock.connectors.files.json.members import same_but_case
from penstock.connectors.files.json.query import UNKNOWN, only_objects, structure_of
from penstock.connectors.files.text_lines import split_lines
from penstock.errors import SourceError, did_you_mean

_STEP = 4 << 20


def require_keys(path: str, begin: int, schema: pa.Schema) -> None:
    """Raise unless, for every column and every field of a struct, some row of the file has it. A field counts as
    missing only if there are objects that could have it. A file without rows lacks nothing."""
    search = _Search(schema)
    for structure in _structures(path, begin):
        search.look_at(structure)
        if search.complete:
            return
    for name, near in search.missing():
        raise SourceError(
            f"no row of `{path}` has the column `{name}`",
            detail="keys are matched without regard to case, and a dotted name leads into nested objects",
            hint=f"{near}{'; ' if near else ''}with missing = 'null' a column that a file lacks is null",
        )


@dataclass
class _Search:
    """What is wanted, and what the objects seen so far could have had (`asked`) and had (`seen`), by path."""

    schema: pa.Schema
    asked: dict[str, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._wanted = {path for column in self.schema for path in _paths(column.name, column.type)}

    @property
    def complete(self) -> bool:
        return self._wanted <= self.seen

    def look_at(self, structure: Mapping[str, Any]) -> None:
        if structure:
            self._fields("", self.schema, structure)

    def missing(self) -> Iterator[tuple[str, str]]:
        """The paths that no object has, each with a hint at one that is there."""
        for path, known in self.asked.items():
            if path not in self.seen:
                yield path, did_you_mean(path, sorted(known))

    def _fields(self, above: str, fields: pa.Schema | pa.StructType, structure: Mapping[str, Any]) -> None:
        known = {f"{above}{path}" for path in _dotted(structure)}
        for wanted in fields:
            path = f"{above}{wanted.name}"
            self.asked.setdefault(path, set()).update(known)
            found = _lookup(structure, wanted.name)
            if found is not None:
                self._found(path, wanted.type, found)

    def _found(self, path: str, type_: pa.DataType, structure: Any) -> None:
        self.seen.add(path)
        match structure:
            case str() if structure == UNKNOWN:
                self.seen.update(below for below in self._wanted if below.startswith((f"{path}.", f"{path}[]")))
            case [element] if pa.types.is_list(type_):
                self._found(f"{path}[]", type_.value_type, element)
            case dict() if pa.types.is_map(type_):
                for item in structure.values():
                    self._found(f"{path}[]", type_.item_type, item)
            case dict() if pa.types.is_struct(type_):
                self._fields(f"{path}.", type_, structure)


def _paths(path: str, type_: pa.DataType) -> Iterator[str]:
    """A column and the fields below it."""
    yield path
    if pa.types.is_struct(type_):
        for below in type_:
            yield from _paths(f"{path}.{below.name}", below.type)
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        element = type_.value_type if pa.types.is_list(type_) else type_.item_type
        yield from (p for p in _paths(f"{path}[]", element) if p != f"{path}[]")


def _lookup(structure: Mapping[str, Any], name: str) -> Any:
    """The structure behind a name, found as the values are; None where there is none."""
    if name in structure:
        return structure[name]
    for key, found in structure.items():
        if same_but_case(key, name):
            return found
    head, _, rest = name.partition(".")
    below = _lookup(structure, head) if rest else None
    if isinstance(below, dict):
        return _lookup(below, rest)
    return below if below == UNKNOWN else None


def _dotted(structure: Mapping[str, Any]) -> Iterator[str]:
    for name, below in structure.items():
        yield name
        if isinstance(below, dict):
            yield from (f"{name}.{path}" for path in _dotted(below))


def _structures(path: str, begin: int) -> Iterator[Mapping[str, Any]]:
    """What keys the file has: those of its first line, then those of larger and larger parts."""
    with open_text(path) as file:
        file.seek(begin)
        first = file.readline()
        yield _structure_of_line(first)
        while data := file.read(_STEP):
            lines, _ = split_lines(first + data + (b"" if data.endswith(b"\n") else file.readline()))
            first = b""
            yield structure_of(only_objects(lines)[0].text)


def _structure_of_line(line: bytes) -> Mapping[str, Any]:
    """The keys of one row, told without DuckDB: most files show all of them in their first line."""
    try:
        found = _structure_of_value(json.loads(line))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _structure_of_value(value: Any) -> Any:
    match value:
        case dict():
            return {key: _structure_of_value(below) for key, below in value.items()}
        case [_, *_]:
            return [reduce(_merged, map(_structure_of_value, value))]
    return ""


def _merged(one: Any, other: Any) -> Any:
    """The structure of two elements of an array together."""
    match one, other:
        case dict(), dict():
            return one | {key: _merged(one[key], below) if key in one else below for key, below in other.items()}
        case [first], [second]:
            return [_merged(first, second)]
        case "", _:
            return other
        case _, "":
            return one
    return UNKNOWN
