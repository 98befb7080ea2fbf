"""Columns as words that sort alike: unsigned 64-bit numbers, so that any order of any types is one lexsort.

Numbers sort by value with NaN as the largest, text by its bytes, false before true; that is how DuckDB sorts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from duckdb import SQLExpression

from penstock.expr.evaluate import connection as duck
from penstock.kernels.arrays import Indices, Words
from penstock.kernels.hash import Column, as_array, canonical_keys, decimal_words, is_text
from penstock.kernels.segments import Values
from penstock.types import is_nested

_SIGN = np.uint64(1 << 63)


def sort_words(column: Column, *, descending: bool = False, nulls_first: bool = False) -> list[Words]:
    """Words, the most significant first, that sort as the values do and are equal where the values are. Those of text
    are not comparable across calls."""
    array = as_array(column)
    words = [~word if descending else word for word in _ascending(array)]
    if not array.null_count:
        return words
    nulls = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return [(~nulls if nulls_first else nulls).astype(np.uint64), *words]


def is_sortable(type_: pa.DataType) -> bool:
    """Whether values of this type have sort words."""
    t = pa.types
    whole = t.is_integer(type_) or t.is_boolean(type_) or t.is_date32(type_) or t.is_timestamp(type_)
    return bool(whole or t.is_floating(type_) or t.is_decimal128(type_) or is_text(type_) or is_nested(type_))


def order_by_words(words: Sequence[Words]) -> Indices:
    """An order that sorts rows by these words, the first of which is the most significant.

    The words are packed into one, for numpy sorts one number many times faster than it sorts rows by several. What does
    not fit is first replaced by ranks, which are small."""
    packed = words[0]
    for word in words[1:]:
        width = _width(word)
        if _width(packed) + width > 64:
            packed, word = _ranks(packed), _ranks(word)
            width = _width(word)
        packed = packed << np.uint64(width) | word
    return np.argsort(packed)


def _width(word: Words) -> int:
    """How many bits the largest number takes."""
    return int(word.max(initial=0)).bit_length()


def _ranks(word: Words) -> Words:
    """Each number's place among the distinct ones: two of these fit one word, for there are less than 2**32 rows."""
    order = np.argsort(word)
    ordered = word[order]
    ranks = np.zeros(len(word), dtype=np.uint64)
    ranks[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])
    return ranks


def _ascending(array: pa.Array) -> list[Words]:
    """All nulls are the same word, that of some value."""
    t = pa.types
    if t.is_dictionary(array.type):
        return _ascending(array.dictionary_decode())
    if is_text(array.type):
        return [_text_ranks(array)]
    if is_nested(array.type):
        return [_nested_ranks(array)]
    if t.is_decimal(array.type):
        both = decimal_words(array)
        return [both[:, 1] ^ _SIGN, both[:, 0]]
    if t.is_floating(array.type):
        return [_float_words(canonical_keys([array.cast(pa.float64())])[0])]
    if t.is_uint64(array.type):
        return [_filled(array)]
    whole = array.cast(pa.int32()) if t.is_date32(array.type) else array
    return [_filled(whole.cast(pa.int64())).view(np.uint64) ^ _SIGN]


def _float_words(canonical: pa.Array) -> Words:
    """Bits of a positive number grow with it; those of a negative one fall, and are turned around."""
    bits = _filled(canonical).view(np.uint64)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def _text_ranks(array: pa.Array) -> Words:
    """Each text's place among the distinct ones."""
    encoded = array.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary).to_numpy()
    ranks = np.zeros(len(order) + 1, dtype=np.uint64)  # one more, for a column of nulls has no distinct value
    ranks[order] = np.arange(len(order), dtype=np.uint64)
    return ranks[_filled(encoded.indices)]


def _nested_ranks(array: pa.Array) -> Words:
    """Each nested value's place among the distinct ones, in the order that DuckDB has for them."""
    rows = pa.table({"c0": array, "c1": np.arange(len(array))})
    _, found = duck.select(rows, [SQLExpression("c1"), SQLExpression("dense_rank() OVER (ORDER BY c0 NULLS LAST)")])
    ranks = np.zeros(len(array), dtype=np.uint64)
    ranks[found.column(0).to_numpy()] = found.column(1).to_numpy()
    return ranks


def _filled(array: pa.Array) -> Values:
    plain = array.fill_null(0) if array.null_count else array
    return np.ascontiguousarray(plain.to_numpy(zero_copy_only=False))
