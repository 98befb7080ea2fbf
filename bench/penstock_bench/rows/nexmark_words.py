"""The words of NEXMark's fields: names, places, items and channels, as columns made of a few given words.

A column is made by choosing words by number and joining them, so a million strings cost no Python call each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, joined_texts

Integers = npt.NDArray[np.int64]
Uniform01 = npt.NDArray[np.float64]

FIRST_NAMES = ("Ada", "Boris", "Chloe", "David", "Elena", "Felix", "Grete", "Hugo", "Ines", "Jonas", "Karla", "Liam")
LAST_NAMES = ("Adler", "Berg", "Castro", "Dvorak", "Evans", "Falk", "Gruber", "Hansen", "Ito", "Jensen", "Klein")
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Tucson",
    "Oakland",
    "Fresno",
    "Boise",
    "Nampa",
    "Portland",
    "Salem",
    "Tacoma",
    "Spokane",
    "Casper",
)
ADJECTIVES = ("antique", "blue", "carved", "dusty", "early", "folding", "green", "heavy", "ivory", "rare", "signed")
THINGS = ("bicycle", "camera", "clock", "desk", "globe", "guitar", "lamp", "map", "mirror", "print", "radio", "vase")
HOT_CHANNELS = ("Apple", "Baidu", "Facebook", "Google")
_COLD_CHANNELS = 10_000


def below(n: int, u: Uniform01) -> Integers:
    """Whole numbers in 0..n-1, one for each of `u`."""
    return np.minimum((u * n).astype(np.int64), n - 1)


def chosen(words: Sequence[str], u: Uniform01) -> AnyArray:
    return pa.array(words).take(below(len(words), u))


def joined(*parts: AnyArray | str, by: str = "") -> AnyArray:
    """Strings side by side; a plain string is the same in every row."""
    return joined_texts(parts, by)


def texts(numbers: Integers) -> AnyArray:
    return pc.cast(pa.array(numbers), pa.string())


def channels(hot: Uniform01, which: Uniform01) -> AnyArray:
    """Half of the bids come through one of four channels, the others through one of ten thousand."""
    cold = joined("channel-", texts(below(_COLD_CHANNELS, which)))
    return cast(AnyArray, pc.if_else(pa.array(hot < 0.5), chosen(HOT_CHANNELS, which), cold))


def card_numbers(u: Uniform01) -> AnyArray:
    """Sixteen digits in four blocks."""
    digits = below(10**15, u) + 10**15
    return joined(*(texts(1000 + digits // 10**place % 9000) for place in (12, 8, 4, 0)), by=" ")
