"""The JSON lines format: one object per line; a missing key is null, keys without a column are ignored.

A key that some rows lack is null there. A key that all rows of a file lack is most likely misspelled, so it is an error
unless the source has `missing = 'null'`. Columns and struct fields are searched from the start of the file until all
are found, usually in the first line. The search covers the file, not a split, so the answer does not depend on cuts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, as_lists, as_structs, lists_of, maps_of
from penstock.connectors.files.compressed import open_text
from penstock.connectors.files.format import FilePart
from penstock.connectors.files.json import query as json_query
from penstock.connectors.files.json.members import members, objects_in, same_but_case
from penstock.connectors.files.json.query import UNKNOWN, only_objects, structure_of
from penstock.connectors.files.layout import ByteLayout
from penstock.connectors.files.listing import FileId, identify
from penstock.connectors.files.text_lines import Lines, read_block, report, split_lines, text_begin, text_layout
from penstock.connectors.files.text_values import reasons
from penstock.connectors.files.typed_lines import TypedColumn, first_reason, parsed_column, typed_rows, where_true
from penstock.connectors.source import ReadResult
from penstock.errors import SourceError, did_you_mean
from penstock.type_names import TIMESTAMP

_SAMPLE = 1 << 20
_MOST_FIELDS = 200  # an object with more keys is most likely a map, whose keys differ between rows
_INFERRED: dict[str, pa.DataType] = {
    **dict.fromkeys(("UBIGINT", "BIGINT", "HUGEINT"), pa.int64()),
    "BOOLEAN": pa.bool_(),
    "DOUBLE": pa.float64(),
}
_STEP = 4 << 20


@dataclass(frozen=True)
class JsonFormat:
    """JSON lines. A position is a byte offset in the text. `lenient`: a column may be missing in all rows of a file."""

    lenient: bool = False

    @property
    def name(self) -> str:
        return "json"

    def discover(self, path: str) -> pa.Schema:
        begin = text_begin(path)
        block = read_block(FilePart(identify(path), begin, begin + _SAMPLE), begin)
        return _inferred_schema(only_objects(split_lines(block.data)[0])[0].text, path)

    def check(self, file: FileId, schema: pa.Schema) -> None:
        if not self.lenient:
            _require_keys(file.path, text_begin(file.path), schema)

    def layout(self, file: FileId) -> ByteLayout:
        return text_layout(file, text_begin(file.path))

    def read(self, part: FilePart, schema: pa.Schema, time: str) -> ReadResult:
        block = read_block(part, text_begin(part.file.path))
        lines, not_utf8 = split_lines(block.data)
        lines, no_objects = only_objects(lines)
        rows, malformed = typed_rows(lines, _columns(lines, schema), schema, time)
        return ReadResult(rows, report(part, block, [not_utf8, no_objects, malformed]))


def _columns(lines: Lines, schema: pa.Schema) -> list[TypedColumn]:
    """Return the columns of the schema from the lines, which are JSON objects."""
    columns = []
    for wanted, member in zip(schema, members(lines.text, schema.names), strict=True):
        column = _json_column(wanted.name, member.values, wanted.type)
        columns.append(TypedColumn(column.values, first_reason([member.why, column.why])))
    return columns


def _inferred_schema(objects: AnyArray, path: str) -> pa.Schema:
    """Infer the columns of JSON objects; strings, keys that are always null and keys of mixed types become VARCHAR."""
    structure = structure_of(objects)
    if "" in structure:
        raise SourceError(
            f"`{path}` has a key without a name",
            detail="a column needs a name, and a row has the key ``",
            hint="declare the columns to read: keys that no column has are then left out",
        )
    return _with_times(objects, pa.schema([(name, _type(kind)) for name, kind in structure.items()]))


def _type(kind: Any) -> pa.DataType:
    """Return the Arrow type for a structure that DuckDB inferred."""
    match kind:
        case [element]:
            return pa.list_(_type(element))
        case dict() if 0 < len(kind) <= _MOST_FIELDS and _are_names(list(kind)):
            return pa.struct([(name, _type(below)) for name, below in kind.items()])
        case str():
            return _INFERRED.get(kind, pa.string())
    return pa.string()


def _are_names(keys: list[str]) -> bool:
    """Return whether keys can be the fields of one struct: not empty and different without regard to case."""
    return all(keys) and len({key.lower() for key in keys}) == len(keys)


def _with_times(objects: AnyArray, found: pa.Schema) -> pa.Schema:
    """Return the schema with text columns whose values are all dates, or all timestamps, typed as such."""
    texts = [field.name for field in found if pa.types.is_string(field.type)]
    for name, member in zip(texts, members(objects, texts), strict=True):
        if member.values.null_count < len(member.values):
            for type_ in (pa.date32(), TIMESTAMP):
                if _json_column(name, member.values, type_).why is None:
                    found = found.set(found.get_field_index(name), pa.field(name, type_))
                    break
    return found


def _json_column(name: str, texts: AnyArray, type_: pa.DataType) -> TypedColumn:
    """Parse the values of a column from JSON texts (null: no value).

    A decimal can be a number or a string. A VARCHAR is the content of a string, or the JSON text of any other value.
    """
    if pa.types.is_struct(type_):
        return _struct(name, texts, type_)
    if pa.types.is_list(type_):
        return _list(name, texts, type_)
    if pa.types.is_map(type_):
        return _map(name, texts, type_)
    if pa.types.is_boolean(type_):
        misfit = ~np.asarray(pc.is_in(texts, pa.array(["true", "false"]))) & np.asarray(pc.is_valid(texts))
        return parsed_column(name, texts, type_, misfit)
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return parsed_column(name, texts, type_)
    said = json_query.unquoted(texts)
    if pa.types.is_decimal(type_) or pa.types.is_string(type_):
        return parsed_column(name, pc.coalesce(said, texts) if said.null_count else said, type_)
    misfit = np.asarray(pc.is_valid(texts)) & np.asarray(pc.is_null(said))
    return parsed_column(name, pc.coalesce(said, texts) if misfit.any() else said, type_, misfit)


def _struct(name: str, texts: AnyArray, type_: pa.StructType) -> TypedColumn:
    objects, misfit = objects_in(texts)
    found = members(objects, [field.name for field in type_])
    parts = [
        _json_column(f"{name}.{field.name}", member.values, field.type)
        for field, member in zip(type_, found, strict=True)
    ]
    values = pa.StructArray.from_arrays([p.values for p in parts], fields=list(type_), mask=objects.is_null())
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), *(c.why for c in (*found, *parts))]))


def _list(name: str, texts: AnyArray, type_: pa.ListType[Any]) -> TypedColumn:
    lists = json_query.transformed(texts, ["JSON"])
    misfit = np.asarray(pc.is_null(lists)) & np.asarray(pc.is_valid(texts))
    elements = _json_column(f"{name}[]", as_lists(lists).flatten(), type_.value_type)
    values = lists_of(_offsets(lists), elements.values, lists)
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), _of_parents(elements.why, lists)]))


def _map(name: str, texts: AnyArray, type_: pa.MapType[Any, Any, Any]) -> TypedColumn:
    objects, misfit = objects_in(texts)
    maps = json_query.transformed(objects, "MAP(VARCHAR, JSON)")
    misfit |= np.asarray(pc.is_null(maps)) & np.asarray(pc.is_valid(objects))  # a duplicate key
    entries = maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    texts_of = as_structs(as_lists(entries).flatten()).flatten()
    keys = parsed_column(f"{name} key", texts_of[0], type_.key_type)
    if keys.why is not None:  # a map key cannot be null, so rows with malformed keys are removed before
        why = _of_parents(keys.why, entries)
        assert why is not None
        rest = _map(name, where_true(np.asarray(pc.is_null(why)), texts), type_)
        return TypedColumn(rest.values, first_reason([why, rest.why]))
    items = _json_column(f"{name}[]", texts_of[1], type_.item_type)
    values = maps_of(_offsets(entries), keys.values, items.values, entries)
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), _of_parents(items.why, entries)]))


def _wrong(name: str, texts: AnyArray, type_: pa.DataType, misfit: npt.NDArray[np.bool_]) -> AnyArray | None:
    """Return the reasons for texts that are not of the column's kind, or None."""
    return where_true(misfit, reasons(name, texts, type_)) if misfit.any() else None


def _offsets(lists: AnyArray) -> AnyArray:
    """Return the list offsets of a compact list array."""
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _of_parents(why: AnyArray | None, lists: AnyArray) -> AnyArray | None:
    """Return for each list the reason of its first malformed element."""
    if why is None:
        return None
    bad = np.flatnonzero(np.asarray(pc.is_valid(why)))
    parents, first = np.unique(np.asarray(pc.list_parent_indices(lists))[bad], return_index=True)
    places = np.full(len(lists), -1)
    places[parents] = bad[first]
    return why.take(pa.array(places, mask=places < 0))


def _require_keys(path: str, begin: int, schema: pa.Schema) -> None:
    """Raise unless each column and each struct field occurs in some row of the file.

    A field counts as missing only if there are objects that could have it. A file without rows lacks nothing.
    """
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
    """A search for columns and struct fields: the paths that objects so far could have (`asked`) and had (`seen`)."""

    schema: pa.Schema
    asked: dict[str, set[str]] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._wanted = {path for column in self.schema for path in _paths(column.name, column.type)}

    @property
    def complete(self) -> bool:
        """Return whether all paths have been seen."""
        return self._wanted <= self.seen

    def look_at(self, structure: Mapping[str, Any]) -> None:
        """Add the structure of some rows."""
        if structure:
            self._fields("", self.schema, structure)

    def missing(self) -> Iterator[tuple[str, str]]:
        """Yield the paths that no object has, each with a hint at a similar one."""
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
    """Yield the paths of a column and of the fields below it."""
    yield path
    if pa.types.is_struct(type_):
        for below in type_:
            yield from _paths(f"{path}.{below.name}", below.type)
    elif pa.types.is_list(type_) or pa.types.is_map(type_):
        element = type_.value_type if pa.types.is_list(type_) else type_.item_type
        yield from (p for p in _paths(f"{path}[]", element) if p != f"{path}[]")


def _lookup(structure: Mapping[str, Any], name: str) -> Any:
    """Return the structure at a name, by the same rules as values are found; None if there is none."""
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
    """Yield all paths of a structure."""
    for name, below in structure.items():
        yield name
        if isinstance(below, dict):
            yield from (f"{name}.{path}" for path in _dotted(below))


def _structures(path: str, begin: int) -> Iterator[Mapping[str, Any]]:
    """Yield the structures of the file: of its first line, then of blocks of some megabytes."""
    with open_text(path) as file:
        file.seek(begin)
        first = file.readline()
        yield _structure_of_line(first)
        while data := file.read(_STEP):
            lines, _ = split_lines(first + data + (b"" if data.endswith(b"\n") else file.readline()))
            first = b""
            yield structure_of(only_objects(lines)[0].text)


def _structure_of_line(line: bytes) -> Mapping[str, Any]:
    """Return the structure of one row without DuckDB: in most files the first line has all keys."""
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
    """Return the common structure of two elements of an array."""
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
