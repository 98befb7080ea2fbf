"""Skewed choices: which of `n` values a uniform number picks. Value 0 is the most frequent where there is a skew."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from penstock.errors import ConfigError

Uniform01 = npt.NDArray[np.float64]
Weights = npt.NDArray[np.float64]
Choices = npt.NDArray[np.int64]
_MOST_VALUES = 50_000_000  # the table of cumulative weights takes eight bytes a value


@dataclass(frozen=True)
class Uniform:
    """Every value alike."""

    def pick(self, u: Uniform01, n: int) -> Choices:
        return np.minimum((u * n).astype(np.int64), n - 1)


@dataclass(frozen=True)
class Zipf:
    """Value k has a weight of (k + 1) to the power of -`exponent`."""

    exponent: float

    def pick(self, u: Uniform01, n: int) -> Choices:
        return _pick(_cumulated(self, n), u)

    def weights(self, n: int) -> Weights:
        return np.arange(1, n + 1, dtype=np.float64) ** -self.exponent


@dataclass(frozen=True)
class BModel:
    """The 80/20 law at every scale: of any range of values halved, the lower half has a share of `bias` of the rows.
    A range of odd length has the longer half below."""

    bias: float

    def pick(self, u: Uniform01, n: int) -> Choices:
        return _pick(_cumulated(self, n), u)

    def weights(self, n: int) -> Weights:
        if n == 1:
            return np.ones(1)
        lower = self.weights((n + 1) // 2)
        upper = lower if n % 2 == 0 else self.weights(n // 2)
        return np.concatenate([self.bias * lower, (1 - self.bias) * upper])


Skew = Uniform | Zipf | BModel


def _pick(cumulated: Weights, u: Uniform01) -> Choices:
    """By the inverse of the distribution function."""
    return np.minimum(np.searchsorted(cumulated, u, side="right"), len(cumulated) - 1).astype(np.int64)


@functools.lru_cache(maxsize=4)
def _cumulated(skew: Zipf | BModel, n: int) -> Weights:
    cumulated = np.cumsum(skew.weights(n))
    return np.asarray(cumulated / cumulated[-1], np.float64)


def parse_skew(text: str, n: int) -> Skew:
    """`uniform`, `zipf:1.5` or `bmodel:0.7`, for a choice among `n` values."""
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
