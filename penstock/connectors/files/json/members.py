"""Find members of JSON objects by name, without regard to case, or by a dotted path.

A column takes the member with exactly its name; otherwise the only member whose name differs in case and is not the
name of another column; otherwise, for a dotted name such as `user.id`, the member `id` of the member `user`. An object
with several candidates is malformed. The rules apply to each object alone, so they do not depend on how a file is cut.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, as_lists, as_texts
from penstock.connectors.files.json import query as json_query
from penstock.connectors.files.typed_lines import TypedColumn, first_reason, where_true

_ESCAPED_ASCII = re.compile(rb"\\u00[2-7]")
_IN_PLAIN_NAMES = re.compile(r'[^"\\/\x00-\x1f]+')


def members(objects: AnyArray, names: Sequence[str]) -> list[TypedColumn]:
    """Return the members as JSON texts, one column for each name; null where `objects` is null."""
    if len(objects) == 0:
        return [TypedColumn(pa.array([], pa.string())) for _ in names]
    block = _Objects(objects, frozenset(names))
    found = [block.spelled(name, values) for name, values in zip(names, _exact(objects, names), strict=True)]
    return _with_paths(objects, names, found)


def same_but_case(one: str, other: str) -> bool:
    """Return whether two names are equal or differ only in case."""
    return one.isascii() == other.isascii() and one.lower() == other.lower()


def _exact(objects: AnyArray, names: Sequence[str]) -> list[AnyArray]:
    """Return the members with exactly these names.

    DuckDB needs names that differ in more than case and are not empty, so several queries may be needed.
    """
    found: dict[str, AnyArray] = {"": pa.nulls(len(objects), pa.string())}
    left = [name for name in names if name]
    while left:
        some = list({name.lower(): name for name in reversed(left)}.values())
        found |= dict(zip(some, json_query.members(objects, some), strict=True))
        left = [name for name in left if name not in found]
    return [found[name] for name in names]


@dataclass(frozen=True)
class _Objects:
    """Objects, and the names of all columns that are read from them."""

    objects: AnyArray
    names: frozenset[str]

    def spelled(self, name: str, exact: AnyArray) -> TypedColumn:
        """Return the members of a name, including those spelled in a different case; `exact` are those with the exact
        name."""
        if exact.null_count == self.objects.null_count or not self._may_hold_others(name):
            return TypedColumn(exact)
        parents, codes, known = self._keys
        others = [k for k in known if k != name and k not in self.names and same_but_case(k, name)]
        if not others:
            return TypedColumn(exact)
        has_exact = _rows_with(name, parents, codes, known, len(exact))
        rows = {other: _rows_with(other, parents, codes, known, len(exact)) & ~has_exact for other in others}
        values = exact
        for other, there in rows.items():
            if there.any():
                values = pc.coalesce(values, where_true(there, json_query.members(self.objects, [other])[0]))
        several = np.sum(list(rows.values()), axis=0) > 1
        if not several.any():
            return TypedColumn(values)
        shown = " and ".join(f"`{other}`" for other in others)
        return TypedColumn(values, where_true(several, f"`{name}`: the keys {shown} differ only in case"))

    def _may_hold_others(self, name: str) -> bool:
        """Return False if no key can be the name in a different case: a search of the bytes costs less than parsing."""
        if not name.isascii() or not _IN_PLAIN_NAMES.fullmatch(name) or _ESCAPED_ASCII.search(self._bytes):
            return True
        quoted = f'"{name}"'.encode()
        return self._lowered.count(quoted.lower()) > self._bytes.count(quoted)

    @cached_property
    def _bytes(self) -> bytes:
        data = self.objects.buffers()[2]
        return b"" if data is None else data.to_pybytes()

    @cached_property
    def _lowered(self) -> bytes:
        return self._bytes.lower()

    @cached_property
    def _keys(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], list[str]]:
        """Return all keys of all objects: the index of each key's object, its code among the distinct keys, and these
        keys."""
        lists = json_query.keys_of(self.objects)
        encoded = as_lists(lists).flatten().dictionary_encode()
        parents = np.asarray(pc.list_parent_indices(lists), np.int64)
        return parents, np.asarray(encoded.indices, np.int64), cast("list[str]", encoded.dictionary.to_pylist())


def _rows_with(
    key: str, parents: npt.NDArray[np.int64], codes: npt.NDArray[np.int64], known: list[str], rows: int
) -> npt.NDArray[np.bool_]:
    """Return a mask of the objects that have a key."""
    found = np.zeros(rows, np.bool_)
    if key in known:
        found[parents[codes == known.index(key)]] = True
    return found


def _with_paths(objects: AnyArray, names: Sequence[str], found: list[TypedColumn]) -> list[TypedColumn]:
    """Resolve dotted names as paths, in objects without a member of the whole name."""
    dotted = {i: n.partition(".")[::2] for i, n in enumerate(names) if "." in n.strip(".")}
    dotted = {i: parts for i, parts in dotted.items() if all(parts)}
    dotted = {i: parts for i, parts in dotted.items() if found[i].values.null_count > objects.null_count}
    heads = list(dict.fromkeys(head for head, _ in dotted.values()))
    result = list(found)
    for head, column in zip(heads, members(objects, heads) if heads else [], strict=True):
        places = [i for i, (first, _) in dotted.items() if first == head]
        below, misfit = objects_in(column.values)
        why = first_reason([column.why, where_true(misfit, f"`{head}` is not a JSON object")])
        for i, part in zip(places, members(below, [dotted[i][1] for i in places]), strict=True):
            values = pc.coalesce(found[i].values, part.values)
            reasons = first_reason([found[i].why, part.why, why])
            result[i] = TypedColumn(values, where_true(np.asarray(pc.is_null(found[i].values)), reasons))
    return result


def objects_in(texts: AnyArray) -> tuple[AnyArray, npt.NDArray[np.bool_]]:
    """Return the texts with null for those that are not objects, and a mask of the latter."""
    misfit = np.asarray(pc.invert(pc.starts_with(as_texts(texts), "{")).fill_null(False))
    return where_true(~misfit, texts), misfit
