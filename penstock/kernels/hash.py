"""The key hash: 64 bits per row. It is part of the checkpoint format and must never change.

A partition group is a prefix of the hash, so the top bits must depend on every bit of the key. Each key value becomes
one or two 64-bit words, which are folded into the hash one after another through a bijective mixer. Hence two values of
a single fixed-width key of one word never have the same hash. In general equal hashes are only candidates: kernels
compare the keys.

The mixer is that of splitmix64. Generated data depend on it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, TypeGuard, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked, AnyDictionary, numbers_in
from penstock.errors import QueryError
from penstock.kernels.arrays import Words
from penstock.kernels.segments import blocks
from penstock.type_names import sql_type
from penstock.types import as_array

AnyColumn: TypeAlias = AnyArray | AnyChunked

_SEED = np.uint64(0x70656E73746F636B)
_NULL = np.uint64(0xA5C3_96E1_5B7D_2F09)
_TEXTS = 1 << 16  # strings hashed at a time, to bound the scratch memory


STRIDE = np.uint64(0x9E3779B97F4A7C15)  # the step between the words that splitmix64 mixes


def hash_columns(columns: Sequence[AnyColumn], bits: int = 64, *, length: int | None = None) -> Words:
    """Return the hash of each row's key. `length` is the number of rows if there are no columns.

    Only the top `bits` bits are kept; the others are zero. Equal values have equal hashes in all integer types, in both
    float types, in string and large_string, and with or without dictionary encoding.
    """
    rows = len(columns[0]) if columns else length
    if rows is None:
        raise ValueError("a key without columns needs `length`")
    hashes = np.full(1 if columns else rows, _SEED, dtype=np.uint64)
    for words in (words for column in columns for words in _hash_words(column)):
        hashes = hashes ^ words
        mix(hashes)
    return hashes if bits == 64 else hashes & np.uint64(-1 << (64 - bits) & (1 << 64) - 1)


def canonical_keys(columns: Sequence[AnyColumn]) -> list[AnyArray]:
    """Return the columns with one representation per key: floats without negative zero and with a single NaN; others
    unchanged."""
    return [_canonical_key(as_array(column)) for column in columns]


def key_words(column: AnyColumn) -> list[Words]:
    """Return words that are equal for two rows of this column exactly if their keys are equal. Words of different calls
    must not be compared."""
    array = as_array(column)
    words = [_text_codes(array)] if is_text(array.type) or _is_dictionary(array.type) else _fixed_words(array)
    return [*words, _null_mask(array).astype(np.uint64)] if array.null_count else words


def hashes_identify(columns: Sequence[AnyArray], bits: int = 64) -> bool:
    """Return whether equal hashes imply equal keys, which holds for a single fixed-width key of one word without nulls,
    where the hash is a bijection."""
    if len(columns) != 1 or bits < 64:
        return False
    (column,) = columns
    return _is_fixed(column.type) and not pa.types.is_decimal(column.type) and not column.null_count


def check_key_type(type_: pa.DataType, name: str) -> None:
    """Raise QueryError if values of this type cannot be a key."""
    if not (is_text(type_) or _is_fixed(type_) or (_is_dictionary(type_) and is_text(type_.value_type))):
        nested = pa.types.is_nested(type_)
        raise QueryError(
            f"column `{name}` cannot be a key",
            detail=f"its type is {sql_type(type_)}; DISTINCT, GROUP BY and joins compare keys",
            hint="use one of its fields, or its text with to_json(...)"
            if nested
            else "group or join by numbers, text, dates, timestamps or booleans",
        )


def is_text(type_: pa.DataType) -> bool:
    """Return whether the type is a string or binary type."""
    t = pa.types
    return bool(t.is_string(type_) or t.is_large_string(type_) or t.is_binary(type_) or t.is_large_binary(type_))


def _is_dictionary(type_: pa.DataType) -> TypeGuard[pa.DictionaryType[Any, Any, Any]]:
    """Return whether the type is dictionary-encoded."""
    return bool(pa.types.is_dictionary(type_))


def _is_fixed(type_: pa.DataType) -> bool:
    """Return whether values of the type have a fixed width of at most 128 bits and can be keys."""
    t = pa.types
    integral = t.is_integer(type_) or t.is_boolean(type_) or t.is_date32(type_)
    return bool(integral or t.is_timestamp(type_) or t.is_floating(type_) or t.is_decimal128(type_))


def _hash_words(column: AnyColumn) -> list[Words]:
    """Return the words of a column that are folded into the hash. A null becomes a constant."""
    array = as_array(column)
    check_key_type(array.type, "key")
    words = [_text_words(array)] if is_text(array.type) or _is_dictionary(array.type) else _fixed_words(array)
    if array.null_count:
        nulls = _null_mask(array)
        words = [np.where(nulls, _NULL, w) for w in words]
    return words


def _null_mask(array: AnyArray) -> npt.NDArray[np.bool_]:
    """Return a boolean array that is true where the value is null."""
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False), dtype=np.bool_)


def _fixed_words(array: AnyArray) -> list[Words]:
    """Return fixed-width values as words, with zero for nulls."""
    t = pa.types
    if t.is_decimal(array.type):
        both = decimal_words(array)
        return [both[:, 0], both[:, 1]]
    if t.is_floating(array.type):
        return [_canonical_floats(_filled(array.cast(pa.float64()))).view(np.uint64)]
    if t.is_uint64(array.type):
        return [_filled(array).view(np.uint64)]
    if t.is_date32(array.type):
        array = array.cast(pa.int32())
    return [_filled(array.cast(pa.int64())).view(np.uint64)]


def decimal_words(array: AnyArray) -> Words:
    """Return the low and high words of 128-bit decimals as an n x 2 array, with zero for nulls."""
    both = numbers_in(array.buffers()[1], np.uint64).reshape(-1, 2)
    both = both[array.offset : array.offset + len(array)]
    return np.where(_null_mask(array)[:, None], np.uint64(0), both) if array.null_count else both


def _filled(array: AnyArray) -> npt.NDArray[np.generic]:
    """Return the values as a contiguous array, with zero for nulls."""
    plain = array.fill_null(0) if array.null_count else array
    return np.ascontiguousarray(plain.to_numpy(zero_copy_only=False))


def _canonical_floats(values: npt.NDArray[np.generic]) -> npt.NDArray[np.float64]:
    """Return doubles without negative zero and with a single NaN."""
    floats = np.asarray(values, dtype=np.float64) + 0.0  # turns -0.0 into 0.0
    floats[np.isnan(floats)] = np.nan
    return floats


def _canonical_key(array: AnyArray) -> AnyArray:
    """Return floats in their canonical form and other types unchanged; nulls stay null."""
    if not pa.types.is_floating(array.type):
        return array
    values = pa.array(_canonical_floats(_filled(array.cast(pa.float64())))).cast(array.type)
    return pc.if_else(array.is_null(), pa.scalar(None, array.type), values) if array.null_count else values


def _as_dictionary(array: AnyArray) -> AnyDictionary:
    """Return the array in dictionary encoding."""
    return cast(AnyDictionary, array if _is_dictionary(array.type) else array.dictionary_encode())


def _indices(encoded: AnyDictionary) -> npt.NDArray[np.int64]:
    """Return the dictionary indices, with zero for nulls."""
    return np.asarray(_filled(encoded.indices), dtype=np.int64)


def _text_codes(array: AnyArray) -> Words:
    """Return the dictionary index of each string as a word."""
    encoded = _as_dictionary(array)
    return _indices(encoded).view(np.uint64)


def _text_words(array: AnyArray) -> Words:
    """Return one word per string. Each distinct string is hashed once."""
    encoded = _as_dictionary(array)
    distinct = encoded.dictionary
    if len(distinct) == 0:
        return np.zeros(len(array), dtype=np.uint64)
    blocks = [_distinct_text_words(distinct.slice(at, _TEXTS)) for at in range(0, len(distinct), _TEXTS)]
    return np.concatenate(blocks)[_indices(encoded)]


def _distinct_text_words(texts: AnyArray) -> Words:
    """Hash strings: pad the bytes to words, mix each word with its position, add them up, and mix the sum with the
    length."""
    lengths, data = _text_bytes(texts)
    counts = np.maximum((lengths + 7) // 8, 1)
    firsts = np.cumsum(counts) - counts
    padded = np.zeros(int(counts.sum()) * 8, dtype=np.uint8)
    padded[np.arange(len(data)) + np.repeat(firsts * 8 - (np.cumsum(lengths) - lengths), lengths)] = data
    places = np.arange(len(padded) // 8) - np.repeat(firsts, counts) + 1
    words = padded.view("<u8") + places.astype(np.uint64) * STRIDE
    mix(words)
    sums = np.add.reduceat(words, firsts) + lengths.astype(np.uint64) * STRIDE
    mix(sums)
    return np.asarray(sums, dtype=np.uint64)


def _text_bytes(texts: AnyArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return the length of each string, and the bytes of all strings concatenated."""
    large = texts.cast(pa.large_binary())
    _, offsets, data = large.buffers()
    borders = numbers_in(offsets, np.int64)[large.offset : large.offset + len(large) + 1]
    flat = numbers_in(data, np.uint8)[borders[0] : borders[-1]]
    return np.diff(borders), flat


def mix(words: Words) -> Words:
    """Mix each word in place with a bijection in which every input bit affects every output bit; return the words."""
    for rows in blocks(len(words)):
        block = words[rows]
        other = np.empty_like(block)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            np.right_shift(block, np.uint64(shift), out=other)
            np.bitwise_xor(block, other, out=block)
            np.multiply(block, np.uint64(factor), out=block)
        np.right_shift(block, np.uint64(31), out=other)
        np.bitwise_xor(block, other, out=block)
    return words


def bigints_of(hashes: Words) -> npt.NDArray[np.int64]:
    """Return the BIGINT that has each hash as the only column of a key; there is exactly one."""
    words = hashes.copy()
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9)):
        words = _unshifted(words, shift) * np.uint64(pow(factor, -1, 2**64))
    return (_unshifted(words, 30) ^ _SEED).view(np.int64)


def _unshifted(words: Words, shift: int) -> Words:
    """Return the words from which `w ^ (w >> shift)` makes these, for a shift of at least 22 bits."""
    return np.asarray(words ^ (words >> np.uint64(shift)) ^ (words >> np.uint64(2 * shift)), dtype=np.uint64)
