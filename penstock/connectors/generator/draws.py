"""Stateless random numbers: each is a hash of (seed, column, row), so any rows can be generated again.

The hash is a 64-bit finaliser of the multiply and xor-shift kind, applied to the seed and to the row. A skew determines
which of `n` values a uniform number picks; value 0 is the most frequent unless all are equally frequent.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigError

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_Uniform01 = npt.NDArray[np.float64]
_Weights = npt.NDArray[np.float64]
_Choices = npt.NDArray[np.int64]
_MOST_VALUES = 50_000_000  # the table of cumulative weights takes eight bytes per value


def uniforms(seed: int, column: int, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return a number in [0, 1) for each row, with 53 random bits."""
    key = _mix(_mix(np.array([seed % 2**64], np.uint64)) + np.array([column + 1], np.uint64) * _GOLDEN)
    mixed = _mix(key + rows.astype(np.uint64) * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Permute the 64-bit numbers pseudo-randomly."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


@dataclass(frozen=True)
class Uniform:
    """All values are equally frequent."""

    def pick(self, u: _Uniform01, n: int) -> _Choices:
        """Return a value in [0, n) for each uniform number."""
        return np.minimum((u * n).astype(np.int64), n - 1)


@dataclass(frozen=True)
class Zipf:
    """Value k has the weight (k + 1) to the power of -`exponent`."""

    exponent: float

    def pick(self, u: _Uniform01, n: int) -> _Choices:
        return _pick(_cumulated(self, n), u)

    def weights(self, n: int) -> _Weights:
        return np.arange(1, n + 1, dtype=np.float64) ** -self.exponent


@dataclass(frozen=True)
class BModel:
    """The 80/20 law at every scale: of any range of values, the lower half has the fraction `bias` of the rows.

    In a range of odd length the lower half is the longer one.
    """

    bias: float

    def pick(self, u: _Uniform01, n: int) -> _Choices:
        return _pick(_cumulated(self, n), u)

    def weights(self, n: int) -> _Weights:
        if n == 1:
            return np.ones(1)
        lower = self.weights((n + 1) // 2)
        upper = lower if n % 2 == 0 else self.weights(n // 2)
        return np.concatenate([self.bias * lower, (1 - self.bias) * upper])


Skew = Uniform | Zipf | BModel


def _pick(cumulated: _Weights, u: _Uniform01) -> _Choices:
    """Return a value for each uniform number by inverting the cumulative distribution."""
    return np.minimum(np.searchsorted(cumulated, u, side="right"), len(cumulated) - 1).astype(np.int64)


@functools.lru_cache(maxsize=4)
def _cumulated(skew: Zipf | BModel, n: int) -> _Weights:
    """Return the cumulative distribution of the values 0 to n - 1."""
    cumulated = np.cumsum(skew.weights(n))
    return np.asarray(cumulated / cumulated[-1], np.float64)


def parse_skew(text: str, n: int) -> Skew:
    """Parse `uniform`, `zipf:1.5` or `bmodel:0.7`, for a choice among `n` values."""
    name, _, argument = text.partition(":")
    try:
        number = float(argument) if argument else math.nan
    except ValueError:
        number = math.nan
    match name:
        case "uniform" if not argument:
            return Uniform()
        case "zipf" if 0 < number < math.inf and n <= _MOST_VALUES:
            return Zipf(number)
        case "bmodel" if 0.5 <= number < 1 and n <= _MOST_VALUES:
            return BModel(number)
    raise ConfigError(
        f"unknown skew `{text}`",
        detail="zipf takes an exponent above 0, bmodel a share from 0.5 to below 1, both at most 50 million keys",
        hint="write 'uniform', 'zipf:1.5' or 'bmodel:0.7'",
    )
