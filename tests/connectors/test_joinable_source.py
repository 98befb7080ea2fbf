"""The generator of streams that join with each other: every value of a range as often as the join ratio says, hence the
number of join results that is asked for; the same rows however they are cut."""

from __future__ import annotations

import json
import pickle

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.api.script import read_script
from penstock.connectors.generator.joinable import JOINABLE_SCHEMA, JoinableConnector
from penstock.connectors.generator.joinable_range import Permutation, Turns
from penstock.errors import ConfigError
from penstock.kernels.hash import hash_columns
from penstock.state.directory import uniform
from penstock.testing import assert_same_rows, batch_answer
from penstock.types import time_values

GOLDEN = (2461648310025265885, 194, 1_000_000_000_000, "dDIXrUJ0")
MIXED = JoinableConnector(tuple_range=6_000, ratios=(4, 2, 1), partitions=300)
SKEWED = JoinableConnector(
    tuple_range=1_200, ratios=(2,), partitions=30, rate=1_000.0, skew=10, alternate=(5_000_000, 10_000_000)
)


def keys(connector: JoinableConnector, first: int, last: int) -> np.ndarray:
    return connector.generate(first, last, ("key",))["key"].to_numpy()


def occurrences(found: np.ndarray) -> dict[int, int]:
    """How many values there are, by how often they occur."""
    often, values = np.unique(np.unique(found, return_counts=True)[1], return_counts=True)
    return dict(zip(often.tolist(), values.tolist(), strict=True))


def results_per_row(streams: list[pa.Table]) -> float:
    """The results of the join of streams, for each row of one of them."""
    tables = {f"s{n}": table for n, table in enumerate(streams)}
    others = "".join(f" JOIN s{n} USING (key)" for n in range(1, len(streams)))
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return connection.sql(f"SELECT count(*) FROM s0{others}").fetchall()[0][0] / len(streams[0])


@pytest.mark.parametrize("ratio", [1, 2, 3])
def test_each_value_occurs_in_each_range_as_often_as_the_ratio(ratio):
    connector = JoinableConnector(ratios=(ratio,))
    first, second = keys(connector, 0, 30_000), keys(connector, 30_000, 60_000)
    assert occurrences(first) == occurrences(second) == {ratio: 30_000 // ratio}
    assert np.array_equal(np.unique(first), np.unique(second))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("inputs", [2, 3])
@pytest.mark.parametrize("ranges", [1, 2])
def test_a_row_has_as_many_results_as_the_paper_expects(inputs, ranges):
    """Range 30K, ratio 2, three inputs: 4 results in the first range, 16 in the second."""
    size = 30_000
    streams = [JoinableConnector(n, ratios=(2,)).generate(0, ranges * size, ("key",)) for n in range(inputs)]
    assert results_per_row(streams) == (ranges * 2) ** (inputs - 1)
    newest = [streams[0].slice((ranges - 1) * size), *streams[1:]]
    assert results_per_row(newest) == {(2, 1): 2, (2, 2): 4, (3, 1): 4, (3, 2): 16}[inputs, ranges]


def test_a_third_of_the_partitions_has_each_of_three_ratios():
    table = MIXED.generate(6_000, 12_000, ("key", "partition"))
    partition, key = table["partition"].to_numpy(), table["key"].to_numpy()
    for third, ratio in enumerate((4, 2, 1)):
        inside = partition // 100 == third
        assert occurrences(key[inside]) == {ratio: 2_000 // ratio}
    assert np.array_equal(np.bincount(partition), np.full(300, 20))


def test_partitions_have_nearly_equal_shares_where_values_do_not_come_out_even():
    rows = np.bincount(JoinableConnector(ratios=(3,)).generate(0, 30_000)["partition"].to_numpy())
    assert (len(rows), set(rows.tolist())) == (300, {99, 102})


def test_a_partition_is_an_equal_part_of_the_hashes_and_stays_together_at_a_site():
    table = MIXED.generate(0, 6_000)
    hashes, partition = hash_columns([table["key"]]), table["partition"].to_numpy()
    assert np.array_equal(hashes // np.uint64(2**64 // 300), partition)
    directory = uniform(3, 64)
    sites = directory.home_of[np.searchsorted(directory.lows, hashes, side="right") - 1]
    assert np.mean(sites == partition // 100) > 0.99


def test_rows_of_a_range_are_well_mixed():
    places = Permutation(30_000, 5).places(np.full(30_000, 3), np.arange(30_000))
    assert np.array_equal(np.sort(places), np.arange(30_000))
    assert abs(np.corrcoef(places[1:], places[:-1])[0, 1]) < 0.03
    counts = np.bincount(places[:10_000] // 300, minlength=100)
    assert (((counts - 100) ** 2) / 100).sum() / 99 < 1.5
    assert np.mean(places == Permutation(30_000, 5).places(np.full(30_000, 4), np.arange(30_000))) < 0.001


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 99, 100, 101])
def test_an_order_has_every_place_once(size):
    for number in range(5):
        places = Permutation(size, 1).places(np.full(size, number), np.arange(size))
        assert sorted(places.tolist()) == list(range(size))


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 500),
    split_rows=st.integers(1, 200),
    limits=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    skew=st.sampled_from([1.0, 2.5, 10.0]),
    payload=st.sampled_from([0, 5, 5_000]),
)
def test_cuts_change_nothing(rows, split_rows, limits, skew, payload):
    connector = JoinableConnector(
        1, rows, 10.0, tuple_range=120, ratios=(2, 1), partitions=4, skew=skew, alternate=(3_000_000, 7_000_000),
        payload=payload, disorder=10**6, start=0, seed=4, split_rows=split_rows,
    )  # fmt: skip
    tables, progress, ended, epoch = [JOINABLE_SCHEMA.empty_table()], None, False, 0
    while not ended:
        offer = connector.open(JOINABLE_SCHEMA, "ts").offer(progress, limits[epoch % len(limits)])
        for split in pickle.loads(pickle.dumps(offer.splits)):
            assert split.rows <= split_rows
            tables += [result.rows for result in split.read(tuple(JOINABLE_SCHEMA.names))]
        progress, ended, epoch = json.loads(json.dumps(offer.progress)), offer.ended, epoch + 1
    assert pa.concat_tables(tables).combine_chunks().equals(connector.generate(0, rows).combine_chunks())


def test_a_split_is_read_again_with_the_same_rows():
    (split,) = SKEWED.open(JOINABLE_SCHEMA, "ts").offer({"rows": 700}, 900).splits
    first, again = (list(split.read(("key", "ts", "payload"))) for _ in range(2))
    assert [result.rows for result in first] == [result.rows for result in again]
    assert split.size == 900 * 64


def test_a_seed_means_the_same_rows_for_ever():
    row = JoinableConnector(2, seed=7, payload=8).generate(10**12, 10**12 + 1).to_pylist()[0]
    assert (row["key"], row["partition"], row["sequence"], row["payload"]) == GOLDEN


def test_streams_share_their_values_and_nothing_else():
    one, other = (JoinableConnector(n, ratios=(2,), disorder=10**6, seed=3).generate(0, 30_000) for n in (0, 1))
    assert np.array_equal(np.unique(one["key"].to_numpy()), np.unique(other["key"].to_numpy()))
    for column in ("key", "ts", "payload"):
        assert np.mean(np.array(one[column]) == np.array(other[column])) < 0.01
    seeds = [np.unique(keys(JoinableConnector(seed=seed), 0, 30_000)) for seed in (3, 4)]
    assert not np.isin(*seeds).any()


def test_halves_of_the_partitions_take_turns_to_get_ten_times_as_many_rows():
    table = SKEWED.generate(0, 45_000)
    first_half, seconds = table["partition"].to_numpy() < 15, time_values(table["ts"]) // 1_000_000
    for begin, end, share in [(0, 5, 10 / 11), (5, 15, 1 / 11), (15, 20, 10 / 11), (20, 30, 1 / 11), (30, 35, 10 / 11)]:
        inside = (seconds >= begin) & (seconds < end)
        assert np.mean(first_half[inside]) == pytest.approx(share, abs=0.001)


def test_each_half_has_its_own_ranges():
    table = SKEWED.generate(0, 30_000)
    key, partition = table["key"].to_numpy(), table["partition"].to_numpy()
    for half in (partition < 15, partition >= 15):
        ranges = len(key[half]) // 600
        assert ranges >= 10
        assert all(occurrences(key[half][n * 600 : (n + 1) * 600]) == {2: 300} for n in range(ranges))


@settings(max_examples=50, deadline=None)
@given(
    skew=st.floats(1.01, 50),
    lengths=st.lists(st.integers(1, 60), min_size=2, max_size=6).filter(lambda lengths: len(lengths) % 2 == 0),
)
def test_turns_number_the_rows_of_each_half_without_gaps(skew, lengths):
    half, nth = Turns(skew, tuple(lengths)).of(np.arange(300))
    assert [nth[half == one].tolist() for one in (0, 1)] == [list(range(np.sum(half == one))) for one in (0, 1)]


def test_one_span_is_the_turn_of_both_halves():
    connector = JoinableConnector(rate=10.0, skew=9, alternate=(10_000_000,))
    first_half = connector.generate(0, 400)["partition"].to_numpy() < 150
    assert first_half.reshape(4, 100).mean(axis=1).tolist() == [0.9, 0.1, 0.9, 0.1]


@pytest.mark.parametrize("payload", [0, 1, 32, 1_000_000])
def test_payloads_have_the_length_asked_for(payload):
    connector = JoinableConnector(rows=200, payload=payload)
    splits = connector.open(JOINABLE_SCHEMA, "ts").offer(None, 1_000).splits
    texts = [text for split in splits for result in split.read(("payload",)) for text in result.rows["payload"]]
    assert {len(text.as_py()) for text in texts} == {payload}
    assert sum(split.size for split in splits) == 200 * (32 + payload)
    assert max(split.size for split in splits) <= 64_000_000
    assert payload < 32 or len({text.as_py() for text in texts}) == 200


def test_a_row_has_64_bytes_by_default():
    assert JoinableConnector().generate(0, 10_000).nbytes == pytest.approx(64 * 10_000, rel=0.01)


def test_columns_do_not_depend_on_which_others_are_asked_for():
    connector = JoinableConnector(disorder=1_000)
    assert connector.generate(5, 50, ("ts", "key")).equals(connector.generate(5, 50).select(["ts", "key"]))
    assert connector.generate(5, 50, ()).num_rows == 45
    assert connector.generate(5, 5).equals(JOINABLE_SCHEMA.empty_table())


def test_identity_leaves_out_tuning():
    assert JoinableConnector(split_rows=1).identity() == JoinableConnector(split_rows=2).identity()
    assert JoinableConnector(0).identity() != JoinableConnector(1).identity()


def test_sql_and_python_read_the_same_stream():
    script = """CREATE SOURCE s (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (
        connector = 'joinable', stream = 2, rows = 900, rate = 5, tuple_range = 1_200, ratios = '4, 2, 1', seed = 6,
        partitions = 30, skew = 2.5, alternate = '30s, 1m', payload = '1KB', disorder = '2s', start = '2024-01-31');
        SELECT * FROM s"""
    stream = ps.read.joinable(
        2, rows=900, rate=5, tuple_range=1_200, ratios=[4, 2, 1], seed=6, partitions=30, skew=2.5,
        alternate=["30s", "1m"], payload="1KB", disorder="2s", start="2024-01-31", name="s",
    )  # fmt: skip
    (query,) = read_script(script).queries
    assert query.ready.sink.input == stream.node
    found = stream.to.memory().start(master="inline").wait().result()
    assert_same_rows(found, stream.node.connector.generate(0, 900), "the rows of a run")


@pytest.mark.parametrize("skew", [1, 10])
def test_a_three_way_join_gives_the_batch_answer(skew, tmp_path):
    """Two ranges of each of three streams, out of order."""
    streams = [
        ps.read.joinable(
            n, rows=240, rate=10, tuple_range=120, ratios=[4, 2, 1], partitions=6, skew=skew, alternate=["4s", "8s"],
            payload=4, disorder="3s", start=0,
        )
        for n in range(3)
    ]  # fmt: skip
    joined = ps.join_all(streams, "key", within="1d")
    run = joined.to.memory().start(str(tmp_path), master="inline", sites=2, rows_per_epoch=100).wait()
    rows = {f"joinable_{n}": stream.node.connector.generate(0, 240) for n, stream in enumerate(streams)}
    assert_same_rows(run.result(), batch_answer(joined, rows), "three-way join")
    assert skew > 1 or run.result().num_rows == 10 * 8**3 + 20 * 4**3 + 40 * 2**3


@pytest.mark.parametrize(
    "options",
    [
        {"stream": -1}, {"rows": -1}, {"rate": 0}, {"disorder": -1}, {"split_rows": 0}, {"payload": -1},
        {"payload": 1_000_001}, {"partitions": 0}, {"ratios": ()}, {"ratios": (0,)}, {"ratios": (1.5,)}, {"ratios": 2},
        {"ratios": (1, 2, 3, 4, 5, 6, 7)}, {"ratios": (7,)}, {"tuple_range": 299}, {"tuple_range": 10_000_300},
        {"ratios": (4, 2, 1), "tuple_range": 30_001}, {"skew": 0.5}, {"skew": float("inf")}, {"skew": float("nan")},
        {"skew": 2, "partitions": 3}, {"skew": 2, "alternate": ()}, {"skew": 2, "alternate": (0, 5_000_000)},
    ],
)  # fmt: skip
def test_options_are_checked(options):
    with pytest.raises(ConfigError) as error:
        JoinableConnector(**options)
    assert error.value.detail
    assert error.value.hint


@pytest.mark.parametrize(("given", "options"), [(29_999, {"ratios": (7,)}), (30_001, {"ratios": (4, 2, 1)})])
def test_the_hint_names_a_range_that_fits(given, options):
    with pytest.raises(ConfigError) as error:
        JoinableConnector(tuple_range=given, **options)
    fitting = int(error.value.hint.split()[1])
    assert given < fitting <= given + 2_000
    assert occurrences(keys(JoinableConnector(tuple_range=fitting, **options), 0, fitting)).keys() == set(
        options["ratios"]
    )
