"""The experiments' own runs, small and without Spark: what is run is what was meant, and wrong results are seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import PenstockError
from penstock_bench.check.digest import Digest, digest
from penstock_bench.experiments import (
    epoch_cost,
    epoch_script,
    expiry_run,
    join_memory,
    join_memory_run,
    slide_cost_run,
)
from penstock_bench.experiments.epoch_cost import BARE
from penstock_bench.experiments.epoch_cost_run import Done, Epochs, Order
from penstock_bench.experiments.epoch_script import CLOSING, CLOSING_MANY, FEW, ROWS, Sizes, closed_rows, script
from penstock_bench.experiments.part import ask
from penstock_bench.experiments.scripted import ScriptedConnector, Step
from penstock_bench.experiments.slide_cost_run import Case
from penstock_bench.rows.data import ensure_data

SIZES = Sizes(state=4_000, rows=500, few=50)


def test_a_step_has_distinct_keys_in_its_span_of_time() -> None:
    table = Step("x", 1_000, low=500, high=2_500, first_key=7, keys=1_000).table()
    assert sorted(table.column("k").to_pylist()) == list(range(7, 1_007))
    times = table.column("ts").cast(pa.int64()).to_pylist()
    assert times == sorted(times)
    assert (times[0], times[-1]) == (500, 2_498)


def test_a_script_is_offered_one_step_at_a_time_and_never_ends() -> None:
    steps = (Step("x", 10, keys=10), Step(finished=("x",)))
    reader = ScriptedConnector(steps, "s").open(pa.schema([]), "ts")
    first = reader.offer(None, 1)
    second = reader.offer(first.progress, 1)
    third = reader.offer(second.progress, 1)
    assert [len(offer.splits) for offer in (first, second, third)] == [1, 0, 0]
    assert [offer.finished for offer in (first, second, third)] == [(), ("x",), ()]
    assert third.progress == second.progress
    assert not any(offer.ended for offer in (first, second, third))


def _measured(folder: Path, cycles: int, warm: int) -> epoch_cost.Answer:
    epochs = Epochs()

    def tell(do: epoch_cost.Do) -> Done:
        return epochs.obey(Order(do, SIZES, warm + cycles, "inline", "direct", str(folder)))

    return epoch_cost.in_turns(SIZES, cycles, tell, lambda: 0.5, warm)


def test_epochs_of_each_kind_are_timed_and_their_results_checked(tmp_path: Path) -> None:
    answer = _measured(tmp_path, cycles=3, warm=1)
    assert {kind: len(seconds) for kind, seconds in answer.seconds.items() if seconds} == {
        BARE: 6, ROWS: 3, CLOSING: 3, FEW: 3, CLOSING_MANY: 3,
    }  # fmt: skip
    assert answer.seconds[BARE] == [0.5] * 6
    assert answer.end.equal
    assert answer.end.late_rows == 0
    assert SIZES.state <= answer.end.state_rows < SIZES.state + SIZES.rows + SIZES.few


def test_each_epoch_without_rows_closes_one_window_at_every_site(tmp_path: Path) -> None:
    _measured(tmp_path, cycles=2, warm=0)
    files: dict[str, list[Path]] = {}
    for path in (tmp_path / "rows").glob("*.parquet"):
        files.setdefault(path.name.partition("-")[0], []).append(path)
    assert len(files) == 4
    for paths in files.values():
        windows = {start for path in paths for start in pq.read_table(path).column("window_start").to_pylist()}
        assert (len(paths), len(windows)) == (2, 1)


def test_the_answer_of_a_script_leaves_out_what_stays_open() -> None:
    made = script(SIZES, cycles=2)
    answer = closed_rows(made)
    assert answer.num_rows == 2 * (SIZES.rows + SIZES.few)
    closed = max(value.timestamp() for value in answer.column("window_start").to_pylist())
    assert closed < epoch_script.FAR / 1e6


def test_expiry_is_timed_with_all_state_there(tmp_path: Path) -> None:
    question = expiry_run.Question(20_000, epochs=4, small=3, small_rows=100, master="inline", folder=str(tmp_path))
    answer = expiry_run.measure(question)
    assert answer.state_rows == 20_300
    assert answer.rows_out == 0
    assert answer.runs >= 2
    assert answer.expiry > 0


def test_a_part_answers_from_a_process_of_its_own(tmp_path: Path) -> None:
    question = expiry_run.Question(2_000, epochs=2, small=2, small_rows=100, master="inline", folder=str(tmp_path))
    module, log = "penstock_bench.experiments.expiry_run", tmp_path / "logs" / "part.log"
    assert ask(module, question, expiry_run.Answer, log).state_rows == 2_200


def test_a_part_that_fails_says_where_its_log_is(tmp_path: Path) -> None:
    log = tmp_path / "part.log"
    with pytest.raises(PenstockError, match="expiry_run of a benchmark failed") as raised:
        ask("penstock_bench.experiments.expiry_run", {"state_rows": "many"}, expiry_run.Answer, log)
    assert str(log) in raised.value.hint
    assert "ValidationError" in raised.value.detail


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ensure_data(tmp_path_factory.mktemp("data"), 2_000, ("a",)) / "a"


def test_sliding_and_tumbling_runs_are_checked(tmp_path: Path, rows: Path) -> None:
    cases = (Case(120, 120, 100), Case(120, 1, 100), Case(120, 2, 2_000))
    (tmp_path / "scratch").mkdir()
    question = slide_cost_run.Question(cases, 1, str(rows), str(rows), "inline", str(tmp_path / "scratch"))
    trials = slide_cost_run.measure(question)
    assert [trial.case for trial in trials] == list(cases)
    assert all(trial.equal and trial.rows_in == 2_000 for trial in trials)
    assert trials[1].rows_out > 50 * trials[0].rows_out
    assert not any((tmp_path / "scratch").iterdir())


@pytest.mark.parametrize("case", [Case(120, 120, 100), Case(120, 60, 2_000)])
@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT * FROM answer LIMIT (SELECT count(*) - 1 FROM answer)",
        "SELECT * FROM answer UNION ALL (SELECT * FROM answer LIMIT 1)",
        "SELECT k, window_start, n + (row_number() OVER () = 1)::INT AS n, s FROM answer",
        "SELECT k, window_start, n, s * 1.00001 AS s FROM answer",
    ],
)
def test_a_wrong_sliding_result_is_seen(tmp_path: Path, rows: Path, case: Case, wrong: str) -> None:
    panes = slide_cost_run._answer(Case(case.size, case.slide, case.keys), rows).replace("WHERE k % 97 = 0", "")
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE answer AS {panes}")
        connection.execute(f"COPY answer TO '{tmp_path}/x.parquet'")
        assert slide_cost_run.equal(case, rows, tmp_path)
        connection.execute(f"COPY ({wrong}) TO '{tmp_path}/x.parquet'")
    assert not slide_cost_run.equal(case, rows, tmp_path)


@pytest.mark.parametrize(
    ("values", "same"),
    [
        ("(2, 3.0), (1, 2.0)", True),
        ("(1, 2.0), (2, 3.0000000001)", True),
        ("(1, 2.0), (2, 3.001)", False),
        ("(1, 3.0), (2, 2.0)", False),
        ("(1, 2.0)", False),
        ("(1, 2.0), (2, 3.0), (3, 0.0)", False),
        ("(1, 2.0), (3, 3.0)", False),
    ],
)
def test_digests_tell_multisets_apart(values: str, same: bool) -> None:
    with duckdb.connect() as connection:
        found, expected = (
            digest(connection, f"(VALUES {rows}) AS t(k, s)", ["k"], ["s"]) for rows in (values, "(1, 2.0), (2, 3.0)")
        )
    assert found.same(expected) is same


@pytest.mark.parametrize("changed", [{"rows": 3}, {"hashes": 8}, {"sums": (1.5,)}])
def test_every_part_of_a_digest_counts(changed: dict[str, Any]) -> None:
    one = Digest(rows=2, hashes=7, sums=(1.0,))
    assert one.same(replace(one))
    assert not one.same(replace(one, **changed))


def test_a_join_keeps_its_rows_and_its_results_are_checked(tmp_path: Path) -> None:
    data = join_memory.prepared(tmp_path / "data", 4_000)
    (tmp_path / "scratch").mkdir()
    question = join_memory_run.Question("penstock", str(data), 4_000, "inline", 2, str(tmp_path / "scratch"))
    answer = join_memory_run.measure(question)
    assert answer.equal
    assert answer.rows_out == 20
    assert answer.memory.disk > 4_000 * 30
    assert answer.memory.heap == 0
    assert answer.memory.processes >= answer.memory.outside > 10_000_000
