"""Sort words: columns of any type as unsigned 64-bit words that sort like the values, so that any ORDER BY is one
lexsort.

The order is that of DuckDB: numbers by value with NaN as the largest, text by its bytes, false before true.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import pyarrow as pa
from duckdb import SQLExpression

from penstock.arrow import AnyArray, AnyDictionary
from penstock.expr.evaluate import connection as duck
from penstock.kernels.arrays import Indices, Words
from penstock.kernels.codes import encode
from penstock.kernels.hash import AnyColumn, decimal_words, is_text
from penstock.type_names import is_nested
from penstock.types import as_array

_SIGN = np.uint64(1 << 63)


def sort_words(column: AnyColumn, *, descending: bool = False, nulls_first: bool = False) -> list[Words]:
    """Return words, the most significant first, that sort like the values and are equal exactly if the values are.
    Words of text and nested values must not be compared across calls."""
    array = as_array(column)
    words = [~word if descending else word for word in _ascending(array)]
    if not array.null_count:
        return words
    nulls = np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)
    return [(~nulls if nulls_first else nulls).astype(np.uint64), *words]


def is_sortable(type_: pa.DataType) -> bool:
    """Return whether values of this type have sort words."""
    t = pa.types
    whole = t.is_integer(type_) or t.is_boolean(type_) or t.is_date32(type_) or t.is_timestamp(type_)
    return bool(whole or t.is_floating(type_) or t.is_decimal128(type_) or is_text(type_) or is_nested(type_))


def order_by_words(words: Sequence[Words]) -> Indices:
    """Return the order that sorts rows by these words, the first of which is the most significant.

    The words are packed into one, because numpy sorts single integers many times faster than rows of several. Words
    that do not fit are first replaced by their ranks, which are small.
    """
    packed = words[0]
    for word in words[1:]:
        width = _width(word)
        if _width(packed) + width > 64:
            packed, word = _ranks(packed), _ranks(word)
            width = _width(word)
        packed = packed << np.uint64(width) | word
    return np.argsort(packed)


def _width(word: Words) -> int:
    """Return the number of bits of the largest word."""
    return int(word.max(initial=0)).bit_length()


def _ranks(word: Words) -> Words:
    """Return each word's rank among the distinct words. Two ranks fit one word, because there are fewer than 2**32
    rows."""
    order = np.argsort(word)
    ordered = word[order]
    ranks = np.zeros(len(word), dtype=np.uint64)
    ranks[order[1:]] = np.cumsum(ordered[1:] != ordered[:-1])
    return ranks


def _ascending(array: AnyArray) -> list[Words]:
    """Return words that sort the values ascending. All nulls get the same word, which may be that of a value."""
    t = pa.types
    if t.is_dictionary(array.type):
        return _ascending(cast(AnyDictionary, array).dictionary_decode())
    if is_text(array.type):
        return [encode(array).codes.view(np.uint64)]  # ranks, which are not negative
    if is_nested(array.type):
        return [_nested_ranks(array)]
    if t.is_decimal(array.type):
        both = decimal_words(array)
        return [both[:, 1] ^ _SIGN, both[:, 0]]
    if t.is_uint64(array.type):
        return [np.asarray((array.fill_null(0) if array.null_count else array).to_numpy(), dtype=np.uint64)]
    return [encode(array).codes.view(np.uint64) ^ _SIGN]


def _nested_ranks(array: AnyArray) -> Words:
    """Return each nested value's rank among the distinct values, in DuckDB's order."""
    rows = pa.table({"c0": array, "c1": np.arange(len(array))})
    _, found = duck.select(rows, [SQLExpression("c1"), SQLExpression("dense_rank() OVER (ORDER BY c0 NULLS LAST)")])
    ranks = np.zeros(len(array), dtype=np.uint64)
    ranks[found.column(0).to_numpy()] = found.column(1).to_numpy()
    return ranks
