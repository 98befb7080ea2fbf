"""The types of columns that JSON objects show. What has no type of its own is read as JSON text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from penstock.connectors.files.json.members import members
from penstock.connectors.files.json.query import structure_of
from penstock.connectors.files.json.values import json_column
from penstock.errors import SourceError
from penstock.types import TIMESTAMP

_MOST_FIELDS = 200  # an object of more keys is most likely a map, with other keys in other rows
_INFERRED = dict.fromkeys(("UBIGINT", "BIGINT", "HUGEINT"), pa.int64()) | {
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}


def inferred_schema(objects: pa.Array, path: str) -> pa.Schema:
    """The columns of JSON objects: a key that is a string, always null, or now this and now that is a VARCHAR."""
    structure = structure_of(objects)
    if "" in structure:
        raise SourceError(
            f"`{path}` has a key without a name",
            detail="a column needs a name, and a row has the key ``",
            hint="declare the columns to read: keys that no column has are then left out",
        )
    return _with_times(objects, pa.schema([(name, _type(kind)) for name, kind in structure.items()]))


def _type(kind: Any) -> pa.DataType:
    match kind:
        case [element]:
            return pa.list_(_type(element))
        case dict() if 0 < len(kind) <= _MOST_FIELDS and _are_names(list(kind)):
            return pa.struct([(name, _type(below)) for name, below in kind.items()])
        case str():
            return _INFERRED.get(kind, pa.string())
    return pa.string()


def _are_names(keys: list[str]) -> bool:
    """Tell whether keys can be the fields of one struct: names that differ in more than case."""
    return all(keys) and len({key.lower() for key in keys}) == len(keys)


def _with_times(objects: pa.Array, found: pa.Schema) -> pa.Schema:
    """Texts that are all times, or all dates, are columns of that type."""
    texts = [field.name for field in found if pa.types.is_string(field.type)]
    for name, member in zip(texts, members(objects, texts), strict=True):
        if member.values.null_count < len(member.values):
            for type_ in (pa.date32(), TIMESTAMP):
                if json_column(name, member.values, type_).why is None:
                    found = found.set(found.get_field_index(name), pa.field(name, type_))
                    break
    return found
