"""A generator of call records, the workload of a mobile-phone network: who called whom, from where, when, how long.

Row i is a function of (seed, i) alone. A skew says which of `n` callers a uniform number picks; caller 0 is the most
frequent where there is one.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, schema_of
from penstock.connectors.generator.reader import (
    Generator,
    check_least,
    check_rate,
    drawn_lags,
    event_times,
    table_of,
    uniforms,
)
from penstock.errors import ConfigError
from penstock.type_names import TIMESTAMP

CALLS_SCHEMA = schema_of(
    {
        "caller": pa.int64(),
        "callee": pa.int64(),
        "district": pa.int32(),
        "duration": pa.float64(),
        "x": pa.float64(),
        "y": pa.float64(),
        "ts": TIMESTAMP,
    }
)
_MEAN_DURATION = 120.0  # seconds; durations are exponential
_AREA = 100.0  # the side of the square the calls come from
_ROW_BYTES = 52
# Places of the random columns; they are part of what a seed means, so they never change.
_CALLER, _CALLEE, _DISTRICT, _DURATION, _X, _Y, _LAG = range(7)
_Uniform01 = npt.NDArray[np.float64]
_Weights = npt.NDArray[np.float64]
_Choices = npt.NDArray[np.int64]
_MOST_VALUES = 50_000_000  # the table of cumulative weights takes eight bytes a value


@dataclass(frozen=True)
class CallsConnector(Generator):
    """A stream of generated calls.

    `rows` None means unbounded. Row i has the event time `start` + i / `rate` seconds, minus up to `disorder` (times
    and spans in microseconds); without a `start`, times begin at the first offer. `realtime`: rows are offered as the
    clock reaches them, counted from the first offer. Callers and callees are 0 to `keys` - 1; callers follow the
    `skew`: uniform, zipf:1.5 or bmodel:0.7.
    """

    rows: int | None = None
    rate: float = 100_000.0
    realtime: bool = False
    keys: int = 10_000
    districts: int = 100
    skew: str = "uniform"
    disorder: int = 0
    start: int | None = None
    seed: int = 0
    split_rows: int = 500_000

    def __post_init__(self) -> None:
        check_least({"rows": (self.rows, 0), "keys": (self.keys, 1), "disorder": (self.disorder, 0)})
        check_least({"districts": (self.districts, 1), "split_rows": (self.split_rows, 1)})
        check_rate(self.rate)
        parse_skew(self.skew, self.keys)

    @property
    def kind(self) -> str:
        return "calls"

    @property
    def row_bytes(self) -> int:
        return _ROW_BYTES

    @property
    def rows_per_split(self) -> int:
        return self.split_rows

    def discover(self) -> pa.Schema:
        return CALLS_SCHEMA

    def generate(self, first: int, last: int, columns: tuple[str, ...] = tuple(CALLS_SCHEMA.names)) -> pa.Table:
        """Return the rows [first, last), with the given columns."""
        rows = np.arange(first, last, dtype=np.int64)
        schema = pa.schema([CALLS_SCHEMA.field(name) for name in columns])
        return table_of(schema, [self._column(field.name, rows) for field in schema], len(rows))

    def _column(self, name: str, rows: npt.NDArray[np.int64]) -> AnyArray:
        match name:
            case "caller":
                return pa.array(parse_skew(self.skew, self.keys).pick(uniforms(self.seed, _CALLER, rows), self.keys))
            case "callee":
                return pa.array(_below(self.keys, uniforms(self.seed, _CALLEE, rows)))
            case "district":
                return pa.array(_below(self.districts, uniforms(self.seed, _DISTRICT, rows)).astype(np.int32))
            case "duration":
                return pa.array(-_MEAN_DURATION * np.log1p(-uniforms(self.seed, _DURATION, rows)))
            case "x":
                return pa.array(_AREA * uniforms(self.seed, _X, rows))
            case "y":
                return pa.array(_AREA * uniforms(self.seed, _Y, rows))
        return event_times(self.start, self.rate, rows, drawn_lags(self.disorder, self.seed, _LAG, rows))


def _below(n: int, u: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return whole numbers in [0, n) for uniform numbers in [0, 1)."""
    return np.minimum((u * n).astype(np.int64), n - 1)


@dataclass(frozen=True)
class Uniform:
    """All values are equally frequent."""

    def pick(self, u: _Uniform01, n: int) -> _Choices:
        """Return a value in [0, n) for each uniform number."""
        return _below(n, u)


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
