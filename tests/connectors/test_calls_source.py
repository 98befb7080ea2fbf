"""The generator of call records: the same rows however they are cut, with the distributions asked for."""

from __future__ import annotations

import json
import pickle
import time as clock

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.connectors.generator import reader
from penstock.connectors.generator.calls import (
    CALLS_SCHEMA,
    BModel,
    CallsConnector,
    Uniform,
    Zipf,
    parse_skew,
)
from penstock.connectors.generator.reader import uniforms
from penstock.errors import ConfigError
from penstock.types import time_values

N = 200_000
GOLDEN = (1, 1428, 17, 96.44696301777327, 59.89389326694005, 64.33318874410239)


def chi_square(found: np.ndarray, shares: np.ndarray) -> float:
    """Per degree of freedom: about 1 where the distribution is right."""
    counts = np.bincount(found, minlength=len(shares))
    expected = shares * len(found)
    return float(((counts - expected) ** 2 / expected).sum() / (len(shares) - 1))


@settings(max_examples=30, deadline=None)
@given(
    rows=st.integers(0, 500),
    split_rows=st.integers(1, 200),
    limits=st.lists(st.integers(1, 300), min_size=1, max_size=3),
    skew=st.sampled_from(["uniform", "zipf:1.5", "bmodel:0.7"]),
)
def test_cuts_change_nothing(rows, split_rows, limits, skew):
    connector = CallsConnector(rows=rows, split_rows=split_rows, skew=skew, keys=50, disorder=10**6, seed=4, start=0)
    tables, progress, ended, epoch = [CALLS_SCHEMA.empty_table()], None, False, 0
    while not ended:
        offer = connector.open(CALLS_SCHEMA, "ts").offer(progress, limits[epoch % len(limits)])
        for split in pickle.loads(pickle.dumps(offer.splits)):
            assert split.rows <= split_rows
            tables += [result.rows for result in split.read(tuple(CALLS_SCHEMA.names))]
        progress, ended, epoch = json.loads(json.dumps(offer.progress)), offer.ended, epoch + 1
    assert pa.concat_tables(tables).combine_chunks().equals(connector.generate(0, rows).combine_chunks())


def test_a_seed_means_the_same_rows_for_ever():
    row = CallsConnector(seed=7, skew="zipf:1.2", disorder=1_000).generate(10**12, 10**12 + 1).to_pylist()[0]
    assert (row["caller"], row["callee"], row["district"]) == GOLDEN[:3]
    assert [row["duration"], row["x"], row["y"]] == pytest.approx(GOLDEN[3:])


def test_columns_do_not_depend_on_which_others_are_asked_for():
    connector = CallsConnector(seed=1)
    assert connector.generate(5, 50, ("ts", "x")).equals(connector.generate(5, 50).select(["ts", "x"]))
    assert connector.generate(5, 50, ()).num_rows == 45


def test_other_seeds_and_columns_are_unrelated():
    rows = np.arange(N)
    a, b, c = uniforms(1, 0, rows), uniforms(2, 0, rows), uniforms(1, 1, rows)
    for x, y in [(a, b), (a, c), (a[1:], a[:-1])]:
        assert abs(np.corrcoef(x, y)[0, 1]) < 0.01
    assert chi_square((a * 1000).astype(np.int64), np.full(1000, 1e-3)) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("n", [1, 2, 7, 100])
def test_uniform_keys(n):
    found = Uniform().pick(uniforms(3, 0, np.arange(N)), n)
    assert (found.min(), found.max()) == (0, n - 1)
    assert n == 1 or chi_square(found, np.full(n, 1 / n)) < 3


@pytest.mark.parametrize(("exponent", "n"), [(0.5, 100), (1.0, 50), (1.5, 20)])
def test_zipf_keys(exponent, n):
    weights = 1.0 / np.arange(1, n + 1) ** exponent
    found = Zipf(exponent).pick(uniforms(5, 0, np.arange(N)), n)
    assert chi_square(found, weights / weights.sum()) == pytest.approx(1, abs=0.7)


def test_b_model_keys():
    """Value k of 2^m has a share of b^(zeros of k) (1-b)^(ones of k)."""
    ones = np.array([k.bit_count() for k in range(64)])
    shares = 0.7 ** (6 - ones) * 0.3**ones
    found = BModel(0.7).pick(uniforms(5, 0, np.arange(N)), 64)
    assert chi_square(found, shares) == pytest.approx(1, abs=0.6)


@pytest.mark.parametrize("n", [1, 3, 10, 1000, 10_001])
def test_b_model_over_any_number_of_keys(n):
    found = BModel(0.8).pick(uniforms(5, 0, np.arange(N)), n)
    assert (found.min(), found.max() < n) == (0, True)
    assert n == 1 or np.mean(found < (n + 1) // 2) == pytest.approx(0.8, abs=0.005)


def test_the_callers_have_the_skew_and_the_rest_has_not():
    rows = CallsConnector(skew="zipf:1.5", keys=20, districts=10).generate(0, N)
    assert np.mean(rows["caller"].to_numpy() == 0) > 0.4
    assert chi_square(rows["callee"].to_numpy(), np.full(20, 1 / 20)) < 3
    assert chi_square(rows["district"].to_numpy(), np.full(10, 1 / 10)) < 3
    assert np.mean(rows["duration"].to_numpy()) == pytest.approx(120, rel=0.02)
    assert rows.schema.equals(CALLS_SCHEMA)


def test_times_lag_by_less_than_the_disorder():
    ordered = time_values(CallsConnector(rate=1000.0, start=-5_000_000).generate(0, 10_000)["ts"])
    assert ordered[:3].tolist() == [-5_000_000, -4_999_000, -4_998_000]
    lag = ordered - time_values(
        CallsConnector(rate=1000.0, start=-5_000_000, disorder=50_000).generate(0, 10_000)["ts"]
    )
    assert (lag.min() >= 0, lag.max() < 50_000, lag.max() > 49_000) == (True, True, True)


def test_real_time_offers_what_the_clock_allows(monkeypatch):
    now = 1_000_000_000
    monkeypatch.setattr(reader.clock, "time_ns", lambda: now)
    connector = CallsConnector(rows=250, rate=100.0, realtime=True)
    first = connector.open(CALLS_SCHEMA, "ts").offer(None, 1000)
    assert (first.splits, first.progress) == ((), {"rows": 0, "began_ns": now})
    now += 2_000_000_000
    second = connector.open(CALLS_SCHEMA, "ts").offer(first.progress, 150)
    assert (second.splits[0].rows, second.waiting, second.ended) == (150, 50, False)
    now += 10_000_000_000
    assert connector.open(CALLS_SCHEMA, "ts").offer(second.progress, 150).ended


def test_without_end():
    offer = CallsConnector().open(CALLS_SCHEMA, "ts").offer({"rows": 10**12}, 10)
    assert (offer.splits[0].rows, offer.ended) == (10, False)


@pytest.mark.parametrize(
    "options",
    [
        {"rows": -1}, {"rate": 0}, {"rate": float("inf")}, {"keys": 0}, {"districts": 0}, {"disorder": -1},
        {"split_rows": 0}, {"skew": ""}, {"skew": "zipf"}, {"skew": "zipf:x"}, {"skew": "zipf:0"}, {"skew": "bmodel:1"},
        {"skew": "bmodel:0.4"}, {"skew": "uniform:1"},
    ],
)  # fmt: skip
def test_options_are_checked(options):
    with pytest.raises(ConfigError) as error:
        CallsConnector(**options)
    assert error.value.hint


def test_skews_by_name():
    assert [parse_skew(s, 5) for s in ("uniform", "zipf:1.5", "bmodel:0.7")] == [Uniform(), Zipf(1.5), BModel(0.7)]


def test_identity_leaves_out_tuning():
    assert CallsConnector(split_rows=1).identity() == CallsConnector(split_rows=2).identity()
    assert CallsConnector(seed=1).identity() != CallsConnector(seed=2).identity()


def test_times_begin_when_rows_are_first_read_and_stay_so_after_a_restart():
    before = clock.time()
    connector = CallsConnector(rows=20, rate=10.0)
    first = connector.open(CALLS_SCHEMA, "ts").offer(None, 10)
    later = connector.open(CALLS_SCHEMA, "ts").offer(json.loads(json.dumps(first.progress)) | {"rows": 0}, 20)
    assert before - 1 <= first_time(first) / 1e6 <= clock.time()
    assert first_time(later) == first_time(first)


def first_time(offer):
    [table] = [result.rows for result in offer.splits[0].read(("ts",))]
    return int(time_values(table["ts"])[0])
