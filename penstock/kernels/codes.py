"""Values of any orderable type as 64-bit integers that compare as the values do, and back.

With codes, `min`, `max`, `first`, `last` and `count_distinct` are integer work for every type. Floats have one NaN,
which is above all other values, and one zero. Codes of text hold only within the column they were made from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.kernels.hash import canonical_keys, decimal_words

Codes = npt.NDArray[np.int64]
_BELOW_SIGN = np.int64(2**63 - 1)
NARROW_DECIMAL = 18  # digits that always fit 64 bits


@dataclass(frozen=True)
class Coded:
    """Codes of the values (anything where a value is null), and how to turn such codes into an array of values."""

    codes: Codes
    decode: Callable[[Codes], pa.Array]


def encode(array: pa.Array) -> Coded:
    """The codes of a column."""
    t, type_ = pa.types, array.type
    if t.is_floating(type_):
        return Coded(_float_codes(array), lambda codes: _floats(codes, type_))
    if t.is_decimal(type_) and type_.precision <= NARROW_DECIMAL:
        return Coded(decimal_integers(array), lambda codes: narrow_decimals(codes, type_))
    if t.is_string(type_) or t.is_binary(type_) or t.is_decimal(type_):
        return _ranked(array)
    return Coded(integers(array), lambda codes: _integral(codes, type_))


def integers(array: pa.Array) -> Codes:
    """Whole numbers, booleans, dates or times as 64-bit integers; zero for a null."""
    plain = array.cast(pa.int32()) if pa.types.is_date32(array.type) else array
    plain = plain.cast(pa.int64())
    return np.asarray((plain.fill_null(0) if plain.null_count else plain).to_numpy(), dtype=np.int64)


def decimal_integers(array: pa.Array) -> Codes:
    """Decimals of at most 18 digits as integers, scaled; zero for a null."""
    return np.ascontiguousarray(decimal_words(array)[:, 0]).view(np.int64)


def decimals(low: Codes, high: Codes, type_: pa.DataType) -> pa.Array:
    """Decimals from the two words of their scaled 128-bit integers."""
    words = np.stack((low, high), axis=1)
    return pa.Array.from_buffers(type_, len(low), [None, pa.py_buffer(words)])


def narrow_decimals(scaled: Codes, type_: pa.DataType) -> pa.Array:
    """Decimals from 64-bit scaled integers."""
    return decimals(scaled, scaled >> np.int64(63), type_)


def _integral(codes: Codes, type_: pa.DataType) -> pa.Array:
    plain = pa.array(codes, pa.int64())
    return (plain.cast(pa.int32()) if pa.types.is_date32(type_) else plain).cast(type_)


def _float_codes(array: pa.Array) -> Codes:
    """The bits of a float rise with it where it is positive and fall where it is negative; the latter are turned."""
    (plain,) = canonical_keys([array.cast(pa.float64())])
    bits = np.asarray((plain.fill_null(0) if plain.null_count else plain).to_numpy()).view(np.int64)
    return bits ^ ((bits >> np.int64(63)) & _BELOW_SIGN)


def _floats(codes: Codes, type_: pa.DataType) -> pa.Array:
    bits = codes ^ ((codes >> np.int64(63)) & _BELOW_SIGN)
    return pa.array(bits.view(np.float64)).cast(type_)


def _ranked(array: pa.Array) -> Coded:
    """The rank among the distinct values of the column."""
    encoded = array.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary)
    ordered, ranks = encoded.dictionary.take(order), np.empty(len(order) + 1, dtype=np.int64)
    ranks[order.to_numpy()] = np.arange(len(order))
    ranks[-1] = 0  # for nulls
    return Coded(ranks[encoded.indices.fill_null(-1).to_numpy()], lambda codes: ordered.take(pa.array(codes)))


@dataclass(frozen=True)
class _Narrowed:
    """The same order in codes from 0 to below 2**bits."""

    codes: Codes
    bits: int
    widen: Callable[[Codes], Codes]


@dataclass(frozen=True)
class Pairs:
    """Pairs of codes as single codes that are not negative and compare as the pairs do."""

    codes: Codes
    split: Callable[[Codes], tuple[Codes, Codes]]


def pair(major: Codes, minor: Codes) -> Pairs:
    """Packs two columns of codes into one, closing up the gaps between the codes only where the pair is too wide."""
    parts = _narrowed(major), _narrowed(minor)
    if parts[0].bits + parts[1].bits > 63:
        parts = _dense(major), _dense(minor)
    (high, low), bits = parts, np.int64(parts[1].bits)
    mask = (np.int64(1) << bits) - np.int64(1)
    return Pairs(high.codes << bits | low.codes, lambda codes: (high.widen(codes >> bits), low.widen(codes & mask)))


def _narrowed(codes: Codes) -> _Narrowed:
    least, greatest = (int(codes.min()), int(codes.max())) if len(codes) else (0, 0)
    if (greatest - least).bit_length() > 62:
        return _dense(codes)
    return _Narrowed(codes - least, (greatest - least).bit_length(), lambda narrow: narrow + least)


def _dense(codes: Codes) -> _Narrowed:
    distinct, dense = np.unique(codes, return_inverse=True)
    return _Narrowed(dense.astype(np.int64), len(distinct).bit_length(), lambda narrow: distinct[narrow])


def distinct(codes: Codes) -> Codes:
    """Each code once, rising. Sorting is several times faster than the hash table of `np.unique`."""
    ordered = np.sort(codes)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered
