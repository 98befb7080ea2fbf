"""Parse text columns to typed values, and find the texts that are not values of the type.

Only Arrow's casts decide what is a value, here as in Arrow's CSV reader, so that cutting a file differently cannot
change which rows are malformed. A cast fails as a whole: regular expressions exclude most bad texts in one pass, and
bisection finds the rest (an overflow, a 30th of February).
"""

from __future__ import annotations

from typing import TypeVar, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, AnyChunked, as_texts, joined_texts, where
from penstock.type_names import sql_type

TRUE_TEXTS = ("true", "True", "TRUE", "1")
FALSE_TEXTS = ("false", "False", "FALSE", "0")

_INTEGER = r"^(-?[0-9]+|0[xX][0-9a-fA-F]+)$"
_NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
_FLOAT = r"(?i)^[+-]?(nan|inf|infinity|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?)$"
_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_CLOCK = r"[T ][0-9]{2}(:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)?)?"
_TIMESTAMP = rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}({_CLOCK}(Z|[+-][0-9]{{2}}(:?[0-9]{{2}})?)?)?$"
_ZONED = r"[T ].*(Z|[+-][0-9:]+)$"
_BEYOND_MICROSECONDS = r"(\.[0-9]{6})[0-9]+"
_REASON_LENGTH = 80
_Column = TypeVar("_Column", AnyArray, AnyChunked)


def parse(texts: AnyArray, type_: pa.DataType) -> tuple[AnyArray, npt.NDArray[np.bool_]]:
    """Return the values, and a mask of the texts that are not of this type (their values are null)."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return texts.cast(type_), np.zeros(len(texts), np.bool_)
    # In most columns all values are valid, and one cast is enough. (Arrow's cast to BOOLEAN accepts other texts.)
    values = None if pa.types.is_boolean(type_) else try_cast(texts, type_)
    if values is None:
        values = _cast_shaped(pc.ascii_trim(texts, " \t"), type_)
    return values, np.asarray(pc.and_(pc.is_null(values), pc.is_valid(texts)))


def reasons(name: str, texts: AnyArray, type_: pa.DataType) -> AnyArray:
    """Return the reason why each text is malformed as a value of the column."""
    shown = pc.utf8_slice_codeunits(texts, 0, _REASON_LENGTH)
    return joined_texts([f"`{name}`: '", shown, f"' is not a {sql_type(type_)}"])


def uncastable(values: AnyArray, type_: pa.DataType) -> npt.NDArray[np.int64]:
    """Return the sorted indexes of the values that cannot be cast, by bisection: about log n casts for each."""
    found: list[int] = []
    ranges = [(0, len(values))]
    while ranges:
        start, length = ranges.pop()
        if length == 0 or try_cast(values.slice(start, length), type_) is not None:
            continue
        if length == 1:
            found.append(start)
            continue
        half = length // 2
        ranges += [(start, half), (start + half, length - half)]
    return np.sort(np.array(found, np.int64))


def try_cast(values: _Column, type_: pa.DataType) -> _Column | None:
    """Return the values cast, or None if one of them cannot be."""
    try:
        return cast("_Column", values.cast(type_))
    except pa.ArrowInvalid:
        return None


def zoned(texts: AnyArray) -> AnyArray:
    """Return a mask of the timestamps that end in Z or an offset from UTC."""
    return cast(AnyArray, pc.match_substring_regex(as_texts(texts), _ZONED))


def _cast_shaped(texts: AnyArray, type_: pa.DataType) -> AnyArray:
    """Cast the texts that match the syntax of the type; the others become null."""
    if pa.types.is_boolean(type_):
        false = pc.is_in(texts, pa.array(FALSE_TEXTS))
        true = pc.is_in(texts, pa.array(TRUE_TEXTS))
        return where(np.asarray(pc.or_(true, false)), true)
    shaped = pc.if_else(pc.match_substring_regex(texts, _shape(type_)), texts, pa.scalar(None, pa.string()))
    return _cast_times(shaped) if pa.types.is_timestamp(type_) else _cast(shaped, type_)


def _shape(type_: pa.DataType) -> str:
    """Return the regular expression for the syntax of the type."""
    if pa.types.is_timestamp(type_):
        return _TIMESTAMP
    if pa.types.is_date(type_):
        return _DATE
    if pa.types.is_decimal(type_):
        return _NUMBER
    return _INTEGER if pa.types.is_integer(type_) else _FLOAT


def _cast_times(texts: AnyArray) -> AnyArray:
    """Cast timestamps to microseconds in UTC; Arrow needs separate casts with and without a zone."""
    cut = pc.replace_substring_regex(texts, _BEYOND_MICROSECONDS, r"\1")
    nothing = pa.scalar(None, pa.string())
    with_zone = _cast(pc.if_else(zoned(cut), cut, nothing), pa.timestamp("us", "UTC"))
    without = _cast(pc.if_else(zoned(cut), nothing, cut), pa.timestamp("us"))
    return pc.coalesce(without, with_zone.cast(pa.timestamp("us")))


def _cast(texts: AnyArray, type_: pa.DataType) -> AnyArray:
    """Cast the texts; those that cannot be cast become null."""
    if (values := try_cast(texts, type_)) is not None:
        return values
    good = np.ones(len(texts), np.bool_)
    good[uncastable(texts, type_)] = False
    return where(good, texts).cast(type_)
