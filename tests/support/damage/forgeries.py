"""Damage with valid checksums: manifests and runs that were changed and then given new checksums.

The changed content cannot be true: numbers out of range, fields of another type, runs that are not runs. A changed
number that could be right cannot be detected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import xxhash

from penstock.state.runs import HASH, TIME
from penstock.storage.run_files import block_checksums
from penstock.types import as_array
from tests.support.damage.kinds import Damage, NotApplicable

_TIMES = ("at", "min_time", "median_time", "max_time")
Leaf = tuple[dict[str, Any] | list[Any], Any]  # the container of a value, and its key


def _changed(change: Callable[[dict[str, Any], Random], None]) -> Damage:
    """Return damage that changes the body of a manifest."""

    def forged(path: Path, others: Sequence[Path], random: Random) -> None:
        body = msgspec.json.decode(path.read_bytes())["body"]
        change(body, random)
        path.write_bytes(_sealed(_text(body)))

    return forged


def _rewritten(change: Callable[[bytes, Random], bytes]) -> Damage:
    """Return damage that changes the body of a manifest as text."""

    def forged(path: Path, others: Sequence[Path], random: Random) -> None:
        body = _text(msgspec.json.decode(path.read_bytes())["body"])
        path.write_bytes(_sealed(change(body, random)))

    return forged


def _text(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()  # json writes integers of any length


def _sealed(body: bytes) -> bytes:
    return b'{"checksum":"%s","body":%s}' % (xxhash.xxh3_64_hexdigest(body).encode(), body)


def _leaves(value: Any) -> Iterator[Leaf]:
    """Yield all values of a document, each as its container and key."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    for key in keys:
        yield value, key
        yield from _leaves(value[key])


def _numbers(body: dict[str, Any]) -> list[Leaf]:
    """Return the places of all integers; bools are not integers here."""
    return [(inside, key) for inside, key in _leaves(body) if type(inside[key]) is int]


def _out_of_range(least: Callable[[Any], int]) -> Callable[[dict[str, Any], Random], None]:
    def change(body: dict[str, Any], random: Random) -> None:
        inside, key = random.choice(_numbers(body))
        inside[key] = least(key)

    return change


def _other_type(body: dict[str, Any], random: Random) -> None:
    inside, key = random.choice(list(_leaves(body)))
    inside[key] = random.choice([v for v in ("x", 1.5, [None], {"a": 1}) if type(v) is not type(inside[key])])


def _missing(body: dict[str, Any], random: Random) -> None:
    inside, key = random.choice([leaf for leaf in _leaves(body) if isinstance(leaf[0], dict) and leaf[1] != "memory"])
    del inside[key]


def _one_less(body: dict[str, Any], random: Random) -> None:
    """Remove one source, subquery, site, mark or group."""
    lists = [
        inside[key] for inside, key in _leaves(body) if key in ("sources", "subqueries", "sites", "marks", "groups")
    ]
    random.choice([found for found in lists if isinstance(found, list) and found]).pop()


def _twice(body: dict[str, Any], random: Random) -> None:
    """Let a site hold a slice twice."""
    lists = [inside[key] for inside, key in _leaves(body) if key in ("slices", "pending", "held") and inside[key]]
    if not lists:
        raise NotApplicable
    found = random.choice(lists)
    found.append(found[0])


def _nested(body: bytes, random: Random) -> bytes:
    return body.replace(b'"progress":', b'"deep":' + b"[" * 200_000 + b"]" * 200_000 + b',"progress":', 1)


OF_MANIFESTS: dict[str, Damage] = {
    "forged: huge number": _changed(_out_of_range(lambda key: 2**70)),
    "forged: longest number": _changed(_out_of_range(lambda key: 10**400)),
    "forged: negative number": _changed(_out_of_range(lambda key: -(2**63) - 1 if key in _TIMES else -1)),
    "forged: another type": _changed(_other_type),
    "forged: a missing field": _changed(_missing),
    "forged: one less": _changed(_one_less),
    "forged: a slice twice": _changed(_twice),
    "forged: deep nesting": _rewritten(_nested),
    "forged: not UTF-8": _rewritten(lambda body, random: body.replace(b'"query_id":"', b'"query_id":"\xff\xfe', 1)),
    "forged: a key twice": _rewritten(lambda body, random: body.replace(b'"epoch":', b'"epoch":99,"epoch":', 1)),
    "forged: not a number": _rewritten(lambda body, random: body.replace(b'"rows_in":', b'"rows_in":NaN,"x":', 1)),
}


def _other_rows(change: Callable[[pa.Table, Random], pa.Table]) -> Callable[[bytes, Random], bytes]:
    def changed(data: bytes, random: Random) -> bytes:
        out = pa.BufferOutputStream()
        rows = change(pa.ipc.open_file(data).read_all(), random)
        with pa.ipc.new_file(out, rows.schema) as writer:
            writer.write_table(rows)
        return bytes(out.getvalue())

    return changed


def _bad_offsets(data: bytes, random: Random) -> bytes:
    """Let a text begin far beyond the end of the file."""
    content = bytearray(data)
    rows = pa.ipc.open_file(pa.py_buffer(content)).read_all()
    base = pa.py_buffer(content).address
    texts = [column for column in rows.columns if pa.types.is_string(column.type)]
    if not texts:
        raise NotApplicable
    offsets = as_array(random.choice(texts)).buffers()[1]
    assert offsets is not None
    at = offsets.address - base + 4 * random.randrange(rows.num_rows + 1)
    content[at : at + 4] = (2**31 - 1 - random.randrange(1000)).to_bytes(4, "little")
    return bytes(content)


def _reversed(rows: pa.Table, random: Random) -> pa.Table:
    if rows.column(HASH)[0] == rows.column(HASH)[-1]:
        raise NotApplicable
    return rows.take(np.arange(rows.num_rows)[::-1])


def _as_text(rows: pa.Table) -> pa.Table:
    """Turn the last column into text."""
    last = rows.num_columns - 1
    if last < 2 or pa.types.is_string(rows.schema.field(last).type):
        raise NotApplicable
    texts = pa.array([str(value) for value in rows.column(last).to_pylist()])
    return rows.set_column(last, rows.schema.field(last).name, texts)


def forged_run(change: Callable[[bytes, Random], bytes]) -> Damage:
    """Return damage that changes the content of a run, and its checksums in the newest manifest."""

    def forged(path: Path, others: Sequence[Path], random: Random) -> None:
        data = change(path.read_bytes(), random)
        path.write_bytes(data)
        manifest = max((path.parent.parent / "manifests").glob("*.json"))
        body = msgspec.json.decode(manifest.read_bytes())["body"]
        for inside, key in list(_leaves(body)):
            if key == "run" and inside[key]["name"] == path.name:
                seal = {"size": len(data), "checksum": xxhash.xxh3_64_hexdigest(data)}
                inside[key] |= seal | {"blocks": block_checksums(memoryview(data))}
        manifest.write_bytes(_sealed(_text(body)))

    return forged


OF_RUNS: dict[str, Damage] = {
    "forged: offsets beyond the end": forged_run(_bad_offsets),
    "forged: out of order": forged_run(_other_rows(_reversed)),
    "forged: a row less": forged_run(_other_rows(lambda rows, random: rows.slice(1))),
    "forged: other columns": forged_run(_other_rows(lambda rows, random: rows.select([HASH, TIME]))),
    "forged: other types": forged_run(_other_rows(lambda rows, random: rows.set_column(0, HASH, rows.column(TIME)))),
    "forged: values of another type": forged_run(_other_rows(lambda rows, random: _as_text(rows))),
    "forged: hashes that are missing": forged_run(
        _other_rows(lambda rows, random: rows.set_column(0, HASH, pa.nulls(rows.num_rows, pa.uint64())))
    ),
    "forged: not Arrow": forged_run(lambda data, random: random.randbytes(len(data))),
}
