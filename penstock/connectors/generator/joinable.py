"""A generator of streams that join with each other: how many rows a join of them has is known beforehand."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, arrow_buffer, schema_of
from penstock.connectors.generator.joinable_range import Permutation, RangeLayout, RangePlaces, Turns, places_of
from penstock.connectors.generator.reader import (
    Generator,
    check_least,
    check_rate,
    drawn_lags,
    event_times,
    random_key,
    table_of,
)
from penstock.errors import ConfigError
from penstock.kernels.hash import STRIDE, mix
from penstock.type_names import TIMESTAMP

JOINABLE_SCHEMA = schema_of(
    {
        "key": pa.int64(),
        "partition": pa.int32(),
        "sequence": pa.int64(),
        "payload": pa.string(),
        "ts": TIMESTAMP,
    }
)
MOST_PAYLOAD = 1_000_000
MOST_TUPLES = 10_000_000  # the tables of a range take twelve bytes a tuple
_FIXED_BYTES = 32  # of a row without its payload
_SPLIT_ROWS, _SPLIT_BYTES = 500_000, 64_000_000
# Places of the random columns; they are part of what a seed means, so they never change.
_ORDER, _LAG, _PAYLOAD = 1, 2, 3
_LETTERS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8)
_TEXT = 1_048_583  # characters of the text that payloads are cut from; a prime, so that they begin anywhere in it
_Whole = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JoinableConnector(Generator):
    """A stream that joins with other such streams on `key`. Streams with equal options but another `stream`, 0, 1, 2
    and so on, have the same keys in another order. The rows are divided into ranges of `tuple_range` rows; each range
    has the same keys, and each key of a partition with join ratio r exactly r times. So each row has r^(m-1) results in
    the join of m streams over one range of each, and (kr)^(m-1) over k ranges. `ratios` are given to equal shares of
    the `partitions`: with (4, 2, 1), the first third of them has ratio 4. A partition is an equal part of the hashes of
    keys; a run begins with neighbouring partitions at one site. With a `skew` of 10, a half of the partitions gets 10
    times as many rows as the other: at first those with the lower numbers, for the first span of `alternate`, then the
    others for the second span, and so on, with the spans repeated. Then ranges are counted in each half by itself, and
    have half of `tuple_range` rows. `sequence` numbers the rows from 0 and `payload` is a text of so many bytes.
    `rows`, `rate`, `realtime`, `disorder` and `start` are as for `calls`; `split_rows` None: 500,000, or as many as
    have 64 MB."""

    stream: int = 0
    rows: int | None = None
    rate: float = 100_000.0
    realtime: bool = False
    tuple_range: int = 30_000
    ratios: tuple[int, ...] = (1,)
    partitions: int = 300
    skew: float = 1.0
    alternate: tuple[int, ...] = (300_000_000, 600_000_000)
    payload: int = 32
    disorder: int = 0
    start: int | None = None
    seed: int = 0
    split_rows: int | None = None

    def __post_init__(self) -> None:
        check_least({"stream": (self.stream, 0), "rows": (self.rows, 0), "disorder": (self.disorder, 0)})
        check_least({"partitions": (self.partitions, 1), "payload": (self.payload, 0)})
        check_least({"split_rows": (self.split_rows, 1)})
        check_rate(self.rate)
        _check_most("payload", self.payload, MOST_PAYLOAD)
        _check_most("tuple_range", self.tuple_range, MOST_TUPLES)
        _check_ratios(self.ratios, self.partitions)
        _check_skew(self.skew, self.alternate, self.partitions)
        _check_turns(self.turns)
        _check_range(self.layout)

    @property
    def kind(self) -> str:
        return "joinable"

    @property
    def row_bytes(self) -> int:
        return _FIXED_BYTES + self.payload

    @property
    def rows_per_split(self) -> int:
        return self.split_rows or max(1, min(_SPLIT_ROWS, _SPLIT_BYTES // self.row_bytes))

    @property
    def layout(self) -> RangeLayout:
        return RangeLayout(self.tuple_range, self.partitions, self.ratios, self.skew > 1, self.seed)

    @property
    def turns(self) -> Turns | None:
        """Return the turns of the two halves; None without a skew. An odd number of spans counts twice."""
        spans = self.alternate if len(self.alternate) % 2 == 0 else self.alternate * 2
        return Turns(self.skew, tuple(int(span * self.rate / 1e6) for span in spans)) if self.skew > 1 else None

    def discover(self) -> pa.Schema:
        return JOINABLE_SCHEMA

    def generate(self, first: int, last: int, columns: tuple[str, ...] = tuple(JOINABLE_SCHEMA.names)) -> pa.Table:
        """Return the rows [first, last), with the given columns."""
        rows = np.arange(first, last, dtype=np.int64)
        places, at = self._places(rows) if {"key", "partition"} & set(columns) else (None, rows)
        schema = pa.schema([JOINABLE_SCHEMA.field(name) for name in columns])
        return table_of(schema, [self._column(field.name, rows, places, at) for field in schema], len(rows))

    def _column(self, name: str, rows: _Whole, places: RangePlaces | None, at: _Whole) -> AnyArray:
        match name:
            case "key" if places is not None:
                return pa.array(places.keys[at])
            case "partition" if places is not None:
                return pa.array(places.partitions[at])
            case "sequence":
                return pa.array(rows)
            case "payload":
                return _payloads(self.seed, self.stream, rows, self.payload)
        return event_times(self.start, self.rate, rows, drawn_lags(self.disorder, self._own_seed(_LAG), _LAG, rows))

    def _places(self, rows: _Whole) -> tuple[RangePlaces, _Whole]:
        """Return the places of a range, and that of each row."""
        permutation = Permutation(self.tuple_range, self._own_seed(_ORDER))
        if (turns := self.turns) is None:
            return places_of(self.layout), permutation.places(*np.divmod(rows, self.tuple_range))
        size = self.tuple_range // 2
        half, nth = turns.of(rows)
        number, at = np.divmod(nth, size)
        return places_of(self.layout), replace(permutation, size=size).places(number * 2 + half, at) + half * size

    def _own_seed(self, column: int) -> int:
        """Return a seed that this stream has for itself."""
        return int(random_key(int(random_key(self.seed, column)[0]), self.stream)[0])


def _payloads(seed: int, stream: int, rows: _Whole, length: int) -> AnyArray:
    """Return texts of a length: pieces of one random text, each beginning where that of the row before ends."""
    text, total = _twice(seed), len(rows) * length
    begin = (int(rows[:1].sum()) * length + stream * _TEXT // 7) % _TEXT
    data = text[begin : begin + total] if total <= _TEXT else np.resize(text[begin : begin + _TEXT], total)
    ends = np.arange(len(rows) + 1, dtype=np.int32) * np.int32(length)
    return pa.StringArray.from_buffers(len(rows), arrow_buffer(ends), arrow_buffer(data))


@functools.lru_cache(maxsize=4)
def _twice(seed: int) -> npt.NDArray[np.uint8]:
    """Return a random text twice, so that a piece of it that goes beyond its end is in one part."""
    words = mix(random_key(seed, _PAYLOAD) + np.arange(_TEXT // 8 + 1, dtype=np.uint64) * STRIDE)
    text = _LETTERS[words.view(np.uint8)[:_TEXT] & np.uint8(63)]
    return np.concatenate([text, text])


def _check_most(name: str, value: int, most: int) -> None:
    if value > most:
        raise ConfigError(
            f"`{name}` must be at most {most}", detail=f"it is {value}", hint="leave it out for the default"
        )


def _check_ratios(ratios: object, partitions: int) -> None:
    """Raise ConfigError unless ratios are whole numbers that partitions can get in equal shares."""
    if not isinstance(ratios, tuple) or not ratios or not all(isinstance(r, int) and r >= 1 for r in ratios):
        raise ConfigError(
            "`ratios` must be whole numbers of at least 1",
            detail=f"they are {ratios!r}",
            hint="write one for all partitions, as in 2, or several for equal shares of them, as in 4, 2, 1",
        )
    if partitions % len(ratios):
        raise ConfigError(
            f"{partitions} partitions cannot be shared equally by {len(ratios)} ratios",
            detail="each of the `ratios` belongs to an equal share of the `partitions`",
            hint=f"choose a multiple of {len(ratios)} for `partitions`",
        )


def _check_skew(skew: float, alternate: tuple[int, ...], partitions: int) -> None:
    if not 1 <= skew < float("inf"):
        raise ConfigError(
            "`skew` must be at least 1",
            detail=f"it is {skew}",
            hint="it says how many times as many rows as the other a half of the partitions gets; 1 is none",
        )
    if skew > 1 and partitions % 2:
        raise ConfigError(
            f"{partitions} partitions have no halves",
            detail="with a `skew`, halves of the partitions take turns",
            hint="choose an even number for `partitions`",
        )


def _check_turns(turns: Turns | None) -> None:
    """Raise ConfigError if the halves have no turns, or turns without rows."""
    if turns is not None and min(turns.lengths, default=0) < 1:
        rows = ", ".join(map(str, turns.lengths))
        raise ConfigError(
            "each turn of `alternate` must have a row",
            detail=f"at this `rate` the turns have {rows} rows" if rows else "it has no turns",
            hint="write spans in which some rows arrive, as in 5m, 10m",
        )


def _check_range(layout: RangeLayout) -> None:
    """Raise ConfigError unless each value can occur as often in a range as its ratio says."""
    least, multiple = layout.partitions * max(layout.ratios), layout.multiple()
    if layout.tuple_range < least:
        raise ConfigError(
            f"`tuple_range` must be at least {least}",
            detail=f"it is {layout.tuple_range}; each partition needs a value that occurs as often as its ratio says",
            hint=f"choose {-(-least // multiple) * multiple}, or fewer `partitions`",
        )
    if layout.tuple_range % multiple:
        raise ConfigError(
            f"`tuple_range` must be a multiple of {multiple}",
            detail=f"it is {layout.tuple_range}; otherwise some values could not occur as often as their ratio says",
            hint=f"choose {-(-layout.tuple_range // multiple) * multiple}",
        )
