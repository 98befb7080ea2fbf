"""The key hash: pinned values, equal keys, spread of the top bits."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import QueryError
from penstock.kernels.hash import bigints_of, canonical_keys, hash_columns, hashes_identify, key_words

GOLDEN = Path(__file__).with_name("golden_hash.json")
INTEGERS = [None, 0, 1, -1, 42, 127, -128]
TEXTS = [None, "", "a", "b", "ab", "ba", "abcdefg", "abcdefgh", "abcdefghi", "a\0", "Ä€😀", "x" * 100]
KEYS: dict[str, list[pa.Array]] = {
    "int8": [pa.array(INTEGERS, pa.int8())],
    "int16": [pa.array([*INTEGERS, 2**15 - 1], pa.int16())],
    "int32": [pa.array([*INTEGERS, 2**31 - 1, -(2**31)], pa.int32())],
    "int64": [pa.array([*INTEGERS, 2**63 - 1, -(2**63)], pa.int64())],
    "bool": [pa.array([None, True, False])],
    "date": [pa.array([None, date(1970, 1, 1), date(1969, 12, 31), date(2024, 2, 29)])],
    "timestamp": [pa.array([None, datetime(1970, 1, 1), datetime(1901, 2, 3, 4, 5, 6, 7)], pa.timestamp("us"))],
    "float": [pa.array([None, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan], pa.float32())],
    "double": [pa.array([None, 0.0, -0.0, 0.1, -1.5, math.inf, -math.inf, math.nan, 5e-324])],
    "decimal": [pa.array([None, Decimal("0.00"), Decimal("1.25"), Decimal("-1.25")], pa.decimal128(10, 2))],
    "wide decimal": [pa.array([None, Decimal(10**37), Decimal(-(10**37))], pa.decimal128(38, 0))],
    "text": [pa.array(TEXTS)],
    "binary": [pa.array([None, b"", b"a", b"\xff\x00", b"\xff"])],
    "two columns": [pa.array([1, 2, 1, None, None]), pa.array(["a", "a", None, "a", None])],
    "no column": [],
}


def golden() -> dict[str, list[str]]:
    return {name: [f"{h:016x}" for h in hash_columns(columns, length=2)] for name, columns in KEYS.items()}


def test_the_hash_never_changes() -> None:
    # The file is part of the checkpoint format: a difference here means that old checkpoints cannot be read.
    assert golden() == json.loads(GOLDEN.read_text())


def test_one_value_hashes_alike_in_every_width() -> None:
    hashes = [hash_columns([pa.array(INTEGERS, t)]) for t in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    assert all(np.array_equal(h, hashes[0]) for h in hashes)
    halves = [None, 0.5, -2.0, math.nan, math.inf]
    assert np.array_equal(
        hash_columns([pa.array(halves, pa.float32())]), hash_columns([pa.array(halves, pa.float64())])
    )
    assert np.array_equal(hash_columns([pa.array(TEXTS)]), hash_columns([pa.array(TEXTS, pa.large_string())]))


def test_zeros_and_nans_are_one() -> None:
    other_nan = np.array([0xFFF8_0000_0000_1234], dtype=np.uint64).view(np.float64)[0]
    hashes = hash_columns([pa.array(np.array([0.0, -0.0, math.nan, other_nan]))])
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3]
    assert hashes[0] != hashes[2]


@pytest.mark.parametrize("name", [name for name, columns in KEYS.items() if columns])
def test_layout_does_not_matter(name: str) -> None:
    columns = KEYS[name]
    whole = hash_columns(columns)
    assert np.array_equal(hash_columns([c.slice(1) for c in columns]), whole[1:])
    chunked = [pa.chunked_array([c.slice(0, 1), c.slice(1, 0), c.slice(1)]) for c in columns]
    assert np.array_equal(hash_columns(chunked), whole)
    assert len(hash_columns([c.slice(0, 0) for c in columns])) == 0


def test_dictionaries_hash_as_their_values() -> None:
    texts = pa.array(TEXTS)
    assert np.array_equal(hash_columns([texts.dictionary_encode()]), hash_columns([texts]))
    assert np.array_equal(hash_columns([texts.dictionary_encode().slice(3)]), hash_columns([texts])[3:])


def test_columns_are_not_interchangeable() -> None:
    a, b = pa.array([1, 2, 3]), pa.array([3, 1, 2])
    assert not np.any(hash_columns([a, b]) == hash_columns([b, a]))
    null_first = hash_columns([pa.array([None], pa.int64()), pa.array([1])])
    assert null_first != hash_columns([pa.array([1]), pa.array([None], pa.int64())])


def test_bits_keeps_the_top() -> None:
    column = pa.array(range(100))
    whole = hash_columns([column])
    assert np.array_equal(hash_columns([column], 8), whole >> np.uint64(56) << np.uint64(56))
    assert not hash_columns([column], 0).any()


def test_no_column_needs_a_length() -> None:
    assert len(np.unique(hash_columns([], length=5))) == 1
    with pytest.raises(ValueError, match="length"):
        hash_columns([])


@pytest.mark.parametrize("type_", [pa.list_(pa.int64()), pa.struct([("a", pa.int64())]), pa.null()])
def test_other_types_are_refused(type_: pa.DataType) -> None:
    with pytest.raises(QueryError, match="cannot be a key"):
        hash_columns([pa.array([None], type_)])


@pytest.mark.parametrize(
    "column",
    [
        pa.array(range(20_000)),
        pa.array(np.arange(20_000) << 40),
        pa.array(np.arange(20_000, dtype=np.float64)),
        pa.array([f"user-{i}" for i in range(20_000)]),
        pa.array([f"{i:040}" for i in range(20_000)]),
        pa.array([Decimal(i) for i in range(20_000)], pa.decimal128(20, 0)),
    ],
)
def test_top_and_bottom_bits_spread_evenly(column: pa.Array) -> None:
    hashes = hash_columns([column])
    assert len(np.unique(hashes)) == 20_000
    for shift in (56, 0):
        counts = np.bincount((hashes >> np.uint64(shift) & np.uint64(255)).astype(np.int64), minlength=256)
        # About 78 per bucket; the chi-square statistic of 255 degrees of freedom is below 400 but once in 10**8.
        assert ((counts - 78.125) ** 2 / 78.125).sum() < 400


@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=20))
def test_equal_texts_and_only_they_are_equal(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string())
    hashes, words = hash_columns([column]), np.stack([*key_words(column), np.zeros(len(texts), dtype=np.uint64)])
    for i, a in enumerate(texts):
        for j, b in enumerate(texts):
            assert (hashes[i] == hashes[j]) == (a == b)
            assert bool(np.all(words[:, i] == words[:, j])) == (a == b)


def test_canonical_keys() -> None:
    floats = pa.array([0.0, -0.0, math.nan, None, 1.5], pa.float32())
    (canonical,) = canonical_keys([floats])
    assert canonical.type == pa.float32()
    assert [None if v is None else str(v) for v in canonical.to_pylist()] == ["0.0", "0.0", "nan", None, "1.5"]
    texts = pa.array(["a"])
    assert canonical_keys([pa.chunked_array([texts])])[0].equals(texts)


@pytest.mark.parametrize("name", sorted(KEYS))
def test_the_hash_tells_single_words_apart(name: str) -> None:
    columns = [column.drop_null() for column in KEYS[name]]
    one_word = name not in ("decimal", "wide decimal", "text", "binary", "two columns", "no column")
    assert hashes_identify(columns) == one_word
    assert not hashes_identify(columns, 63)
    assert not any(hashes_identify([column]) for column in KEYS[name])  # a null hashes like some other value


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_every_hash_is_that_of_a_bigint(hashes: list[int]) -> None:
    words = np.array(hashes, dtype=np.uint64)
    assert hash_columns([pa.array(bigints_of(words))]).tolist() == hashes
