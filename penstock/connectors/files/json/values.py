"""JSON texts as values of a type, nested ones level by level, with the reasons why those are malformed that are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connectors.files.json import query as json_query
from penstock.connectors.files.json.members import members, objects_in
from penstock.connectors.files.text_values import reasons
from penstock.connectors.files.typed_lines import TypedColumn, first_reason, parsed_column, where_true


def json_column(name: str, texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    """Values of a column from JSON texts (null: no value). A decimal may be a number or a string. A VARCHAR is what a
    string says, and the JSON text of any other value."""
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


def _struct(name: str, texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    objects, misfit = objects_in(texts)
    found = members(objects, [field.name for field in type_])
    parts = [
        json_column(f"{name}.{field.name}", member.values, field.type)
        for field, member in zip(type_, found, strict=True)
    ]
    values = pa.StructArray.from_arrays([p.values for p in parts], fields=list(type_), mask=objects.is_null())
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), *(c.why for c in (*found, *parts))]))


def _list(name: str, texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    lists = json_query.transformed(texts, ["JSON"])
    misfit = np.asarray(pc.is_null(lists)) & np.asarray(pc.is_valid(texts))
    elements = json_column(f"{name}[]", lists.flatten(), type_.value_type)
    values = pa.ListArray.from_arrays(_offsets(lists), elements.values, mask=lists.is_null())
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), _of_parents(elements.why, lists)]))


def _map(name: str, texts: pa.Array, type_: pa.DataType) -> TypedColumn:
    objects, misfit = objects_in(texts)
    maps = json_query.transformed(objects, "MAP(VARCHAR, JSON)")
    misfit |= np.asarray(pc.is_null(maps)) & np.asarray(pc.is_valid(objects))  # a key that is there twice
    entries = maps.cast(pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])))
    texts_of = entries.flatten().flatten()
    keys = parsed_column(f"{name} key", texts_of[0], type_.key_type)
    if keys.why is not None:  # a map cannot have a null as a key, so the malformed rows are left out
        why = _of_parents(keys.why, entries)
        rest = _map(name, where_true(np.asarray(pc.is_null(why)), texts), type_)
        return TypedColumn(rest.values, first_reason([why, rest.why]))
    items = json_column(f"{name}[]", texts_of[1], type_.item_type)
    values = pa.MapArray.from_arrays(_offsets(entries), keys.values, items.values, mask=entries.is_null())
    return TypedColumn(values, first_reason([_wrong(name, texts, type_, misfit), _of_parents(items.why, entries)]))


def _wrong(name: str, texts: pa.Array, type_: pa.DataType, misfit: npt.NDArray[np.bool_]) -> pa.Array | None:
    return where_true(misfit, reasons(name, texts, type_)) if misfit.any() else None


def _offsets(lists: pa.Array) -> pa.Array:
    lengths = pc.list_value_length(lists).fill_null(0).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _of_parents(why: pa.Array | None, lists: pa.Array) -> pa.Array | None:
    """The reason of the first malformed element of each list."""
    if why is None:
        return None
    bad = np.flatnonzero(np.asarray(pc.is_valid(why)))
    parents, first = np.unique(np.asarray(pc.list_parent_indices(lists))[bad], return_index=True)
    places = np.full(len(lists), -1)
    places[parents] = bad[first]
    return why.take(pa.array(places, mask=places < 0))
