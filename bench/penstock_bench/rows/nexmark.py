"""The events of NEXMark, an on-line auction: people register, open auctions and bid, in the proportion 1 : 3 : 46.

The benchmark's `total` counts the events of all three streams. Event e happens at START + e * (the whole span) / total,
in whole milliseconds, so each stream is in time order and all advance together. Any row can be made by itself: its
fields are a function of the seed, the stream's row number and the total.

As the benchmark describes, ids grow by one, and whoever refers to another refers to a recent one:

- three of four auctions are opened by the hot seller, half of the bids go to the hot auction, three of four bids are
  made by the hot bidder. The hot one is the latest whose number is a multiple of 100 (plus one for bidders), so it
  changes all the time;
- the others choose among the last 1,000 people, and among the auctions that have been opened in the last LIFE / 2;
- some ids run ahead by up to LEAD: the row they refer to comes a moment later.

Usually a hundred auctions are under way whatever the rate, and lives follow from that. Here lives are up to LIFE of
event time, with a mean of LIFE / 2, so that queries mean the same at any size and the state grows with the rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, schema_of
from penstock.connectors.generator.reader import uniforms
from penstock_bench.rows import nexmark_words as words
from penstock_bench.rows.nexmark_words import Integers, below
from penstock_bench.rows.stream import FILE_SECONDS, FILES, SECOND, START, BenchStream

CYCLE = 50  # events: one person, three auctions, 46 bids, in this order
LIFE_SECONDS = 20  # the longest that an auction is open
FIRST_ID = 1_000  # of people and of auctions
FIRST_CATEGORY, CATEGORIES = 10, 5
LEAD = 10
_ACTIVE_PEOPLE = 1_000
_HOT_EVERY = 100
_SPAN = FILES * FILE_SECONDS * SECOND
_MILLISECOND = 1_000
_TIME = pa.timestamp("us")

PERSON_SCHEMA = schema_of(
    {
        "id": pa.int64(),
        "name": pa.string(),
        "email": pa.string(),
        "credit_card": pa.string(),
        "city": pa.string(),
        "state": pa.string(),
        "ts": _TIME,
    }
)
AUCTION_SCHEMA = schema_of(
    {
        "id": pa.int64(),
        "item_name": pa.string(),
        "description": pa.string(),
        "initial_bid": pa.int64(),
        "reserve": pa.int64(),
        "ts": _TIME,
        "expires": _TIME,
        "seller": pa.int64(),
        "category": pa.int64(),
    }
)
BID_SCHEMA = schema_of(
    {
        "auction": pa.int64(),
        "bidder": pa.int64(),
        "price": pa.int64(),
        "channel": pa.string(),
        "url": pa.string(),
        "ts": _TIME,
    }
)


@dataclass(frozen=True)
class Kind:
    """The events of one stream: of every CYCLE events those at the places [first, first + count)."""

    first: int
    count: int

    def before(self, event: Integers) -> Integers:
        """How many there are before an event."""
        return event // CYCLE * self.count + np.clip(event % CYCLE - self.first, 0, self.count)

    def events(self, rows: Integers) -> Integers:
        """Which events the rows are."""
        return rows // self.count * CYCLE + self.first + rows % self.count


PEOPLE, AUCTIONS, BIDS = Kind(0, 1), Kind(1, 3), Kind(4, 46)


@dataclass(frozen=True)
class Draw:
    """The rows of one stream in one file, with the events that they are, and their random numbers: a column for each
    place. Places are part of what a seed means, so they never change."""

    seed: int
    total: int
    rows: Integers
    events: Integers

    def u(self, place: int) -> npt.NDArray[np.float64]:
        return uniforms(self.seed, place, self.rows)

    @property
    def since(self) -> Integers:
        """Microseconds since START, whole milliseconds."""
        return _whole_milliseconds(self.events * _SPAN // self.total)


def person_rows(seed: int, total: int, file: int) -> pa.Table:
    draw = _draw(PEOPLE, seed, total, file)
    first, last = words.chosen(words.FIRST_NAMES, draw.u(0)), words.chosen(words.LAST_NAMES, draw.u(1))
    ids = FIRST_ID + draw.rows
    columns = {
        "id": ids,
        "name": words.joined(first, last, by=" "),
        "email": words.joined(first, ".", last, words.texts(ids), "@example.com"),
        "credit_card": words.card_numbers(draw.u(2)),
        "city": words.chosen(words.CITIES, draw.u(3)),
        "state": words.chosen(words.STATES, draw.u(4)),
        "ts": _times(draw.since),
    }
    return pa.table(columns, schema=PERSON_SCHEMA)


def auction_rows(seed: int, total: int, file: int) -> pa.Table:
    draw = _draw(AUCTIONS, seed, total, file)
    thing, first_price = words.chosen(words.THINGS, draw.u(0)), _prices(draw, 1)
    life = _whole_milliseconds(below(LIFE_SECONDS * SECOND, draw.u(2)))
    described = [words.chosen(words.ADJECTIVES, draw.u(place)) for place in (3, 4, 5)]
    columns = {
        "id": FIRST_ID + draw.rows,
        "item_name": words.joined(described[0], thing, by=" "),
        "description": words.joined(*described, thing, "in good condition", by=" "),
        "initial_bid": first_price,
        "reserve": first_price + _prices(draw, 6),
        "ts": _times(draw.since),
        "expires": _times(draw.since + life),
        "seller": _person(draw, hot=7, cold=8),
        "category": FIRST_CATEGORY + below(CATEGORIES, draw.u(9)),
    }
    return pa.table(columns, schema=AUCTION_SCHEMA)


def bid_rows(seed: int, total: int, file: int) -> pa.Table:
    draw = _draw(BIDS, seed, total, file)
    auction, channel = _auction(draw, hot=0, cold=1), words.channels(draw.u(2), draw.u(3))
    columns = {
        "auction": auction,
        "bidder": _person(draw, hot=4, cold=5, beside=1),
        "price": _prices(draw, 6),
        "channel": channel,
        "url": words.joined("https://auctions.example/", channel, "/item?id=", words.texts(auction)),
        "ts": _times(draw.since),
    }
    return pa.table(columns, schema=BID_SCHEMA)


NEXMARK_STREAMS = (
    BenchStream("person", PERSON_SCHEMA, "ts", 11, person_rows),
    BenchStream("auction", AUCTION_SCHEMA, "ts", 12, auction_rows),
    BenchStream("bid", BID_SCHEMA, "ts", 13, bid_rows),
)


def _draw(kind: Kind, seed: int, total: int, file: int) -> Draw:
    borders = kind.before(np.array([-(-total * file // FILES), -(-total * (file + 1) // FILES)]))
    rows = np.arange(borders[0], borders[1], dtype=np.int64)
    return Draw(seed, total, rows, kind.events(rows))


def _times(since: Integers) -> AnyArray:
    return pa.array(START + since).cast(_TIME)


def _whole_milliseconds(microseconds: Integers) -> Integers:
    return microseconds // _MILLISECOND * _MILLISECOND


def _prices(draw: Draw, place: int) -> Integers:
    """Cents, from one to a million dollars; as many from 1 to 10 as from 10 to 100."""
    return np.round(10.0 ** (draw.u(place) * 6) * 100).astype(np.int64)


def _person(draw: Draw, hot: int, cold: int, beside: int = 0) -> Integers:
    known = PEOPLE.before(draw.events)
    return FIRST_ID + _recent(draw, known, np.minimum(known, _ACTIVE_PEOPLE), 0.75, hot, cold, beside)


def _auction(draw: Draw, hot: int, cold: int) -> Integers:
    known, opened = AUCTIONS.before(draw.events), draw.total * AUCTIONS.count * LIFE_SECONDS * SECOND // 2
    under_way = max(1, opened // (CYCLE * _SPAN))
    return FIRST_ID + _recent(draw, known, np.minimum(known, under_way), 0.5, hot, cold)


def _recent(
    draw: Draw, known: Integers, choice: Integers, share: float, hot: int, cold: int, beside: int = 0
) -> Integers:
    """Which of the `known` so far a row refers to: a `share` of the rows to the hot one, the others to one of the last
    `choice`, or of the LEAD to come."""
    latest = (known - 1) // _HOT_EVERY * _HOT_EVERY + beside
    spread = known - choice + (draw.u(cold) * (choice + LEAD)).astype(np.int64)
    return np.where(draw.u(hot) < share, latest, spread)
