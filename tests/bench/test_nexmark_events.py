"""The events of NEXMark: their proportion, their order, and who refers to whom."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from penstock.types import time_values
from penstock_bench.rows.nexmark import CATEGORIES, FIRST_CATEGORY, FIRST_ID, LEAD, LIFE_SECONDS, NEXMARK_STREAMS
from penstock_bench.rows.stream import FILE_SECONDS, FILES, SECOND, START, BenchStream

TOTAL = 60_000
PERSON, AUCTION, BID = NEXMARK_STREAMS
SHARES = {"person": 1, "auction": 3, "bid": 46}


def all_rows(stream: BenchStream, total: int = TOTAL) -> pa.Table:
    return pa.concat_tables(stream.rows(total, file) for file in range(FILES))


def numbers(rows: pa.Table, column: str) -> npt.NDArray[np.int64]:
    return rows[column].to_numpy()


def known_before(rows: pa.Table, others: pa.Table) -> npt.NDArray[np.int64]:
    """How many of the others have come before each row. All times differ at this size."""
    return np.searchsorted(time_values(others["ts"]), time_values(rows["ts"]))


@pytest.mark.parametrize("stream", NEXMARK_STREAMS, ids=lambda stream: stream.name)
def test_fifty_events_are_one_person_three_auctions_and_46_bids(stream: BenchStream) -> None:
    assert all_rows(stream).num_rows == TOTAL // 50 * SHARES[stream.name]
    assert sum(all_rows(each, 5_003).num_rows for each in NEXMARK_STREAMS) == 5_003


def test_the_streams_are_one_sequence_of_events_evenly_spread_in_time() -> None:
    times = np.sort(np.concatenate([time_values(all_rows(stream)["ts"]) for stream in NEXMARK_STREAMS]))
    milliseconds = np.arange(TOTAL) * (FILES * FILE_SECONDS * 1000) // TOTAL
    assert np.array_equal(times, START + milliseconds * 1000)


@pytest.mark.parametrize("total", [57, 5_003, TOTAL])
@pytest.mark.parametrize("stream", NEXMARK_STREAMS, ids=lambda stream: stream.name)
def test_a_file_has_the_schema_and_its_own_seconds_in_order(stream: BenchStream, total: int) -> None:
    for file in range(FILES):
        rows = stream.rows(total, file)
        since = time_values(rows[stream.time]) - START
        assert rows.schema.equals(stream.schema)
        assert np.all(np.diff(since) >= 0)
        assert np.all(since // (FILE_SECONDS * SECOND) == file)


@pytest.mark.parametrize("stream", NEXMARK_STREAMS, ids=lambda stream: stream.name)
def test_rows_depend_on_the_arguments_only(stream: BenchStream) -> None:
    stream.rows(TOTAL, 7)
    assert stream.rows(TOTAL, 3).equals(stream.rows(TOTAL, 3))
    assert not stream.rows(TOTAL, 3).equals(stream.rows(TOTAL, 4))


@pytest.mark.parametrize("stream", [PERSON, AUCTION], ids=lambda stream: stream.name)
def test_ids_grow_by_one_over_all_files(stream: BenchStream) -> None:
    ids = numbers(all_rows(stream), "id")
    assert np.array_equal(ids, FIRST_ID + np.arange(len(ids)))


@pytest.mark.parametrize(
    ("stream", "column", "others", "share", "beside"),
    [
        (AUCTION, "seller", PERSON, 0.75, 0),
        (BID, "bidder", PERSON, 0.75, 1),
        (BID, "auction", AUCTION, 0.5, 0),
    ],
    ids=["seller", "bidder", "auction"],
)
def test_a_fixed_share_refers_to_the_hot_one_and_nobody_far_ahead(
    stream: BenchStream, column: str, others: BenchStream, share: float, beside: int
) -> None:
    rows = all_rows(stream)
    known, chosen = known_before(rows, all_rows(others)), numbers(rows, column) - FIRST_ID
    hot = chosen == (known - 1) // 100 * 100 + beside
    assert np.mean(hot) == pytest.approx(share, abs=0.03)
    ahead = chosen[~hot] - (known[~hot] - 1)
    assert 0 < ahead.max() <= LEAD
    assert chosen.min() >= 0


def test_bids_that_are_not_hot_go_to_auctions_of_the_last_seconds() -> None:
    bids, auctions = all_rows(BID), all_rows(AUCTION)
    opened = time_values(auctions["ts"])
    chosen = numbers(bids, "auction") - FIRST_ID
    there = (chosen < known_before(bids, auctions)) & (chosen % 100 != 0)
    age = time_values(bids["ts"])[there] - opened[chosen[there]]
    assert age.max() <= (LIFE_SECONDS / 2 + 1) * SECOND
    assert age.max() > LIFE_SECONDS / 4 * SECOND


def test_auctions_are_open_for_up_to_their_longest_life() -> None:
    auctions = all_rows(AUCTION)
    life = time_values(auctions["expires"]) - time_values(auctions["ts"])
    assert life.min() >= 0
    assert life.max() < LIFE_SECONDS * SECOND
    assert life.mean() == pytest.approx(LIFE_SECONDS * SECOND / 2, rel=0.05)
    assert np.all(life % 1000 == 0)


def test_prices_reserves_and_categories_are_in_their_ranges() -> None:
    auctions, prices = all_rows(AUCTION), numbers(all_rows(BID), "price")
    assert prices.min() >= 100
    assert prices.max() <= 100_000_000
    assert np.median(prices) == pytest.approx(100_000, rel=0.1)
    assert np.all(numbers(auctions, "reserve") > numbers(auctions, "initial_bid"))
    assert set(numbers(auctions, "category").tolist()) == set(range(FIRST_CATEGORY, FIRST_CATEGORY + CATEGORIES))


def test_words_are_those_of_their_row() -> None:
    person, bid = PERSON.rows(TOTAL, 1).slice(5, 1).to_pylist()[0], BID.rows(TOTAL, 1).slice(5, 1).to_pylist()[0]
    assert person["email"] == person["name"].replace(" ", ".") + f"{person['id']}@example.com"
    assert [len(block) for block in person["credit_card"].split(" ")] == [4, 4, 4, 4]
    assert bid["url"].endswith(f"/{bid['channel']}/item?id={bid['auction']}")


def test_half_of_the_bids_come_through_four_channels() -> None:
    channels = all_rows(BID)["channel"].to_pylist()
    hot = [channel for channel in channels if not channel.startswith("channel-")]
    assert len(hot) / len(channels) == pytest.approx(0.5, abs=0.02)
    assert len(set(hot)) == 4
    assert len(set(channels)) > 1_000
