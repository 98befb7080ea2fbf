"""NEXMark on Penstock, in several epochs, against DuckDB's batch answer; and that answer against plain loops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock_bench.check.oracle import batch_answer, equal, found_rows, session
from penstock_bench.rows.data import ensure_data
from penstock_bench.rows.stream import FILES
from penstock_bench.rows.streams import STREAMS
from penstock_bench.system import Limits
from penstock_bench.systems.penstock import Penstock
from penstock_bench.workload import Workload
from penstock_bench.workloads.nexmark import ALL, Q3, Q4, Q5, Q7, Q8

TOTAL = 8_000
NAMES = ("person", "auction", "bid")

Row = dict[str, Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("nexmark"), TOTAL, NAMES)


@pytest.fixture(scope="module")
def disordered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("nexmark"), TOTAL, NAMES, disorder=1.9)


@pytest.mark.parametrize("workload", ALL, ids=lambda workload: workload.name)
def test_penstock_gives_the_batch_answer_in_several_epochs(workload: Workload, data: Path, tmp_path: Path) -> None:
    outcome = Penstock("penstock", Limits(), file_epochs=True, master="inline").run(workload, data, tmp_path)
    compared = equal(Path(outcome.result_path), workload, data)
    assert compared.equal, compared.detail
    assert outcome.epochs >= FILES // 2  # of two streams of different lengths, the shorter is read ahead


@pytest.mark.parametrize("workload", [Q4, Q5, Q8], ids=lambda workload: workload.name)
def test_the_answer_does_not_depend_on_the_order_of_arrival(
    workload: Workload, data: Path, disordered: Path, tmp_path: Path
) -> None:
    outcome = Penstock("penstock", Limits(), file_epochs=True, master="inline").run(workload, disordered, tmp_path)
    compared = equal(Path(outcome.result_path), workload, data)
    assert compared.equal, compared.detail


def rows_of(stream: str) -> list[Row]:
    return pa.concat_tables(STREAMS[stream].rows(TOTAL, file) for file in range(FILES)).to_pylist()


def window_of(time: datetime) -> datetime:
    return time.replace(second=time.second // 10 * 10, microsecond=0)


def answer(workload: Workload, data: Path) -> list[Row]:
    with session() as connection:
        return batch_answer(connection, workload, data).to_arrow_table().to_pylist()


def test_q3_is_sellers_of_some_states_and_their_auctions_in_a_category(data: Path) -> None:
    person = {each["id"]: each for each in rows_of("person") if each["state"] in ("OR", "ID", "CA")}
    wanted = Counter(
        (person[sold["seller"]]["name"], sold["id"])
        for sold in rows_of("auction")
        if sold["category"] == 10 and sold["seller"] in person
        if timedelta(seconds=-10) <= sold["ts"] - person[sold["seller"]]["ts"] <= timedelta(seconds=60)
    )
    assert Counter((row["name"], row["id"]) for row in answer(Q3, data)) == wanted


def test_q4_is_the_mean_of_the_highest_bids_while_open(data: Path) -> None:
    auction = {each["id"]: each for each in rows_of("auction")}
    highest: dict[int, int] = {}
    for bid in rows_of("bid"):
        sold = auction.get(bid["auction"])
        if sold and sold["ts"] <= bid["ts"] <= sold["expires"]:
            highest[sold["id"]] = max(bid["price"], highest.get(sold["id"], 0))
    prices: dict[tuple[int, datetime], list[int]] = {}
    for sold_id, price in highest.items():
        prices.setdefault((auction[sold_id]["category"], window_of(auction[sold_id]["ts"])), []).append(price)
    found = {(row["category"], row["window_start"]): row["price"] for row in answer(Q4, data)}
    assert found == pytest.approx({key: sum(each) / len(each) for key, each in prices.items()})


def sliding_windows(time: datetime) -> Iterator[datetime]:
    latest = time.replace(second=time.second // 2 * 2, microsecond=0)
    return (latest - timedelta(seconds=2 * step) for step in range(5))


def test_q5_is_every_auction_with_the_most_bids_of_its_window(data: Path) -> None:
    counts = Counter((start, bid["auction"]) for bid in rows_of("bid") for start in sliding_windows(bid["ts"]))
    most: dict[datetime, int] = {}
    for (start, _), n in counts.items():
        most[start] = max(n, most.get(start, 0))
    wanted = {(start, auction, n) for (start, auction), n in counts.items() if n == most[start]}
    found = [(row["window_start"], row["auction"], row["n"]) for row in answer(Q5, data)]
    assert set(found) == wanted
    assert len(found) == len(wanted)


def test_q7_is_the_highest_bid_of_each_window(data: Path) -> None:
    best: dict[datetime, tuple[Any, ...]] = {}
    for bid in rows_of("bid"):
        candidate = (bid["price"], bid["auction"], bid["bidder"], bid["ts"])
        start = window_of(bid["ts"])
        best[start] = max(candidate, best.get(start, candidate))
    found = answer(Q7, data)
    assert {row["window_start"]: (row["price"], row["auction"], row["bidder"], row["ts"]) for row in found} == best
    assert len(found) == len(best)


def tied_bids(folder: Path) -> Path:
    """In the first 10 s two auctions have two bids each, and two bids are the highest."""
    columns = {"auction": [1, 2, 2, 1, 3], "bidder": [7, 8, 9, 9, 9], "price": [500, 900, 100, 900, 100]}
    times = [datetime(2026, 1, 1) + timedelta(seconds=second) for second in (1, 2, 3, 4, 25)]
    (folder / "bid").mkdir(parents=True)
    pq.write_table(pa.table({**columns, "ts": pa.array(times, pa.timestamp("us"))}), folder / "bid" / "00.parquet")
    return folder


def test_q5_gives_all_of_several_with_the_most_bids(tmp_path: Path) -> None:
    found = result_rows(Q5, tied_bids(tmp_path / "data"), tmp_path)
    tied = [(row["auction"], row["n"]) for row in found if row["window_start"] == datetime(2026, 1, 1)]
    assert sorted(tied) == [(1, 2), (2, 2)]


def test_q7_gives_the_bid_with_the_largest_auction_of_several_highest(tmp_path: Path) -> None:
    found = result_rows(Q7, tied_bids(tmp_path / "data"), tmp_path)
    assert sorted((row["auction"], row["bidder"], row["price"]) for row in found) == [(2, 8, 900), (3, 9, 100)]


def result_rows(workload: Workload, data: Path, out: Path) -> list[Row]:
    """Penstock's, after they have been found to be the batch answer."""
    path = Path(Penstock("penstock", Limits(), master="inline").run(workload, data, out).result_path)
    compared = equal(path, workload, data)
    assert compared.equal, compared.detail
    with session() as connection:
        return found_rows(connection, path).to_arrow_table().to_pylist()


def test_q8_is_people_who_sell_in_the_window_in_which_they_register(data: Path) -> None:
    sellers = {(sold["seller"], window_of(sold["ts"])) for sold in rows_of("auction")}
    wanted = [each["id"] for each in rows_of("person") if (each["id"], window_of(each["ts"])) in sellers]
    assert sorted(row["id"] for row in answer(Q8, data)) == wanted
