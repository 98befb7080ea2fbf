"""Order-preserving codes: values of any orderable type as 64-bit integers that compare like the values, and back.

With codes, `min`, `max`, `first`, `last` and `count_distinct` are integer operations for every type. Floats have one
NaN, above all other values, and one zero. Codes of text and wide decimals are valid only within the column they come
from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, arrow_buffer
from penstock.kernels.hash import canonical_keys, decimal_words, is_text

Codes = npt.NDArray[np.int64]
_BELOW_SIGN = np.int64(2**63 - 1)
NARROW_DECIMAL = 18  # decimals of at most this many digits fit 64 bits


@dataclass(frozen=True)
class Coded:
    """The codes of a column, arbitrary where a value is null, and the function that decodes such codes to an array."""

    codes: Codes
    decode: Callable[[Codes], AnyArray]


def encode(array: AnyArray) -> Coded:
    """Return the codes of a column of any orderable type."""
    t, type_ = pa.types, array.type
    if t.is_floating(type_):
        return Coded(_float_codes(array), lambda codes: _floats(codes, type_))
    if t.is_decimal(type_) and type_.precision <= NARROW_DECIMAL:
        return Coded(decimal_integers(array), lambda codes: narrow_decimals(codes, type_))
    if is_text(type_) or t.is_decimal(type_):
        return _ranked(array)
    return Coded(integers(array), lambda codes: _integral(codes, type_))


def integers(array: AnyArray) -> Codes:
    """Return integers, booleans, dates or times as 64-bit integers, with zero for nulls."""
    plain = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
    plain = plain.cast(pa.int64())
    return np.asarray((plain.fill_null(0) if plain.null_count else plain).to_numpy(), dtype=np.int64)


def decimal_integers(array: AnyArray) -> Codes:
    """Return decimals of at most 18 digits as scaled integers, with zero for nulls."""
    return np.ascontiguousarray(decimal_words(array)[:, 0]).view(np.int64)


def decimals(low: Codes, high: Codes, type_: pa.DataType) -> AnyArray:
    """Build a decimal array from the low and high words of its scaled 128-bit integers."""
    words = np.stack((low, high), axis=1)
    return pa.Array.from_buffers(type_, len(low), [None, arrow_buffer(words)])


def narrow_decimals(scaled: Codes, type_: pa.DataType) -> AnyArray:
    """Build a decimal array from scaled 64-bit integers."""
    return decimals(scaled, scaled >> np.int64(63), type_)


def _integral(codes: Codes, type_: pa.DataType) -> AnyArray:
    """Decode integer codes to an array of integers, booleans, dates or times."""
    plain = pa.array(codes, pa.int64())
    return (plain.cast(pa.int32()) if pa.types.is_date32(type_) else plain).cast(type_)


def _float_codes(array: AnyArray) -> Codes:
    """Return codes of floats. The bits of a positive float rise with its value and those of a negative one fall, so all
    bits of negative floats except the sign are inverted."""
    (plain,) = canonical_keys([array.cast(pa.float64())])
    bits = np.asarray((plain.fill_null(0) if plain.null_count else plain).to_numpy()).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & _BELOW_SIGN)


def _floats(codes: Codes, type_: pa.DataType) -> AnyArray:
    """Decode float codes: inverting the bits again undoes `_float_codes`."""
    bits = codes ^ ((codes >> np.int64(63)) & _BELOW_SIGN)
    return pa.array(bits.view(np.float64)).cast(type_)


def _ranked(array: AnyArray) -> Coded:
    """Return each value's rank among the distinct values of the column."""
    encoded = array.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ordered, ranks = encoded.dictionary.take(order), np.empty(len(order) + 1, dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks[-1] = 0  # the code of nulls
    return Coded(ranks[encoded.indices.fill_null(-1).to_numpy()], lambda codes: ordered.take(codes))


@dataclass(frozen=True)
class _Narrowed:
    """Codes mapped to 0 .. 2**bits - 1 in the same order, and the function that maps such codes back."""

    codes: Codes
    bits: int
    widen: Callable[[Codes], Codes]


@dataclass(frozen=True)
class PackedPairs:
    """Pairs of codes packed into single non-negative codes that compare like the pairs, and the function that unpacks
    them."""

    codes: Codes
    split: Callable[[Codes], tuple[Codes, Codes]]


def pair(major: Codes, minor: Codes) -> PackedPairs:
    """Pack two columns of codes into one. Codes are made dense only if the pairs would not fit 63 bits otherwise."""
    parts = _narrowed(major), _narrowed(minor)
    if parts[0].bits + parts[1].bits > 63:
        parts = _dense(major), _dense(minor)
    (high, low), bits = parts, np.int64(parts[1].bits)
    mask = (np.int64(1) << bits) - np.int64(1)
    packed = high.codes << bits | low.codes
    return PackedPairs(packed, lambda codes: (high.widen(codes >> bits), low.widen(codes & mask)))


def _narrowed(codes: Codes) -> _Narrowed:
    """Map codes to start at 0 by subtracting the minimum, or make them dense if their range takes more than 62 bits."""
    least, greatest = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if (greatest - least).bit_length() > 62:
        return _dense(codes)
    return _Narrowed(codes - least, (greatest - least).bit_length(), lambda narrow: narrow + least)


def _dense(codes: Codes) -> _Narrowed:
    """Replace codes by their ranks among the distinct codes."""
    distinct, dense = np.unique(codes, return_inverse=True)
    return _Narrowed(dense.astype(np.int64), len(distinct).bit_length(), lambda narrow: distinct[narrow])


def distinct(codes: Codes) -> Codes:
    """Return each code once, ascending. Sorting is several times faster than the hash table of `np.unique`."""
    ordered = np.sort(codes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
