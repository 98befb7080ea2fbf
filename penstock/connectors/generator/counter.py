"""Random numbers without a state: a number is a mixed function of (seed, column, row), so any rows can be drawn again.

The mixer is a finaliser of the multiply and xor-shift kind over 64 bits, applied twice, to the seed and to the row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """A permutation of the 64-bit numbers that looks random."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def uniforms(seed: int, column: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """A number in [0, 1) for each row, with 53 random bits."""
    key = mix(mix(np.array([seed % 2**64], np.uint64)) + np.array([column + 1], np.uint64) * _GOLDEN)
    mixed = mix(key + rows.astype(np.uint64) * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
