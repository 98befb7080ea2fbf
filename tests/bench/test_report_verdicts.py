from __future__ import annotations

import pytest

from penstock_bench.report.bars import BARS, DUCKDB, FLINK, SPARK_NATIVE, Bar
from penstock_bench.report.records import Record
from penstock_bench.report.verdicts import goals, verdicts
from penstock_bench.system import SYSTEMS
from penstock_bench.workloads import WORKLOADS

FASTER = Bar("tumble", SPARK_NATIVE, "faster", 20)
LIMIT = Bar("tumble", DUCKDB, "slower", 4)


def record(system: str, rate: float | None, equal: bool | None = True, **others: object) -> Record:
    return Record("tumble", system, rate, equal=equal, detail="2 missing", **others)  # type: ignore[arg-type]


def outcome(bar: Bar, *records: Record) -> tuple[str, str | None, float | None]:
    (verdict,) = verdicts(records, [bar])
    return verdict.outcome, verdict.against, verdict.ratio


def test_bars_are_about_known_workloads_and_systems() -> None:
    assert {bar.workload for bar in BARS} <= set(WORKLOADS)
    assert {peer for bar in BARS for peer in bar.peers} <= set(SYSTEMS)


def test_the_bars_of_the_four_main_workloads() -> None:
    told = {(bar.workload, bar.peers): bar.text for bar in BARS}
    assert told["slide", SPARK_NATIVE] == "at least 60 times"
    for workload in ("tumble", "band", "three-way"):
        assert told[workload, SPARK_NATIVE] == "at least 20 times"
    for workload in ("slide", "tumble", "band", "three-way"):
        assert told[workload, FLINK] == "at least 3 times"
        assert told[workload, DUCKDB] == "at most 4 times its time"


@pytest.mark.parametrize(("ours", "wanted"), [(2000.0, "reached"), (1999.0, "missed")])
def test_the_better_store_counts(ours: float, wanted: str) -> None:
    found = outcome(FASTER, record("penstock", ours), record("spark", 50), record("spark-rocksdb", 100))
    assert found == (wanted, "spark-rocksdb", ours / 100)


def test_a_peer_with_a_wrong_result_does_not_count() -> None:
    peers = record("spark", 50), record("spark-rocksdb", 1000, equal=False)
    assert outcome(FASTER, record("penstock", 1000), *peers) == ("reached", "spark", 20)


def test_a_wrong_result_of_penstock_misses_every_bar() -> None:
    (verdict,) = verdicts([record("penstock", 1e9, equal=False), record("spark", 1)], [FASTER])
    assert (verdict.outcome, verdict.ratio, verdict.text) == ("missed", None, "Penstock: wrong result: 2 missing")


@pytest.mark.parametrize(("ours", "wanted"), [(250.0, "reached"), (249.0, "missed")])
def test_a_limit_is_on_the_time(ours: float, wanted: str) -> None:
    assert outcome(LIMIT, record("penstock", ours), record("duckdb", 1000))[0] == wanted


def test_the_figure_is_in_the_words_of_the_bar() -> None:
    records = record("penstock", 400), record("duckdb", 1000), record("spark", 10)
    assert [one.text for one in verdicts(records, [LIMIT, FASTER])] == ["2.50 times its time", "40.00 times"]


@pytest.mark.parametrize(("epochs", "wanted"), [(4, "missed"), (5, "reached"), (None, "reached")])
def test_a_run_in_few_epochs_reaches_nothing(epochs: int | None, wanted: str) -> None:
    assert outcome(FASTER, record("penstock", 2000, epochs=epochs), record("spark", 1))[0] == wanted


def test_what_was_not_measured_says_why() -> None:
    refusal = record("flink", None, equal=None, refused="no such join")
    flink = Bar("tumble", FLINK, "faster", 3)
    (verdict,) = verdicts([record("penstock", 1), refusal], [flink])
    assert (verdict.outcome, verdict.text) == ("not measured", "flink: refused: no such join")
    (broken,) = verdicts(
        [record("penstock", 1), record("flink", None, None, failed="no memory\n  see /a/file")], [flink]
    )
    assert broken.text == "flink: failed: no memory"
    (absent,) = verdicts([record("penstock", 1)], [FASTER])
    assert (absent.outcome, absent.text) == ("not measured", "without spark and spark-rocksdb")
    (alone,) = verdicts([record("spark", 1)], [FASTER])
    assert (alone.outcome, alone.text) == ("not measured", "Penstock did not take part")


def test_bars_of_other_workloads_are_not_judged() -> None:
    assert verdicts([record("penstock", 1)], [Bar("slide", DUCKDB, "slower", 4)]) == []


def test_the_goal_reaches_every_bar() -> None:
    records = [record("penstock", 400), record("spark", 10), record("duckdb", 4000)]
    found = goals(records, verdicts(records, [FASTER, LIMIT]))
    assert found == pytest.approx({"tumble": 1000.0})
    after = [record("penstock", found["tumble"]), *records[1:]]
    assert {one.outcome for one in verdicts(after, [FASTER, LIMIT])} == {"reached"}
