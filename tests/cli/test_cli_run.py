"""`penstock run` and `explain`, without Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from cli_case import COUNT, calls, last_json, penstock, run, to_files

from penstock.balance import policies
from penstock.balance.decisions import Decision, Move, SplitGroup
from penstock.balance.stats import RoundStats
from penstock.state.directory import Group
from penstock.version import __version__


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands run in a folder of their own; a module of one test is not that of another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def rows_in(folder: str) -> tuple[int, int]:
    """How many result rows, and the sum of their counts."""
    table = pa.concat_tables([pq.read_table(path) for path in Path(folder).glob("*.parquet")])
    return table.num_rows, pc.sum(table["n"]).as_py()


def test_version() -> None:
    assert penstock("--version").stdout.strip() == f"penstock {__version__}"


def test_a_script_runs_to_its_end_and_says_where_everything_is(folder: Path) -> None:
    Path("busy.sql").write_text(calls() + to_files())
    result = run("busy.sql", "--json")
    assert result.exit_code == 0, result.output
    facts = last_json(result)
    rows, total = rows_in("out")
    assert total == 5000
    expected = {"name": "busy", "rows_in": 5000, "rows_out": rows, "late_rows": 0, "bad_rows": 0, "state": "finished"}
    assert {key: facts[key] for key in expected} == expected
    assert facts["epochs"] >= 1
    assert facts["seconds"] > 0
    assert facts["rows_per_second"] > 0
    assert facts["checkpoint"] == str(folder / ".penstock" / "busy-busy")
    assert facts["results"] == str(folder / "out")
    assert "5,000 rows in" in result.stderr
    assert "  results     out\n" in result.stderr
    assert "  checkpoint  .penstock/busy-busy\n" in result.stderr


def test_without_json_nothing_but_rows_is_on_stdout() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    assert run("busy.sql").stdout == ""


def test_a_finished_checkpoint_says_so_and_does_nothing() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    run("busy.sql")
    before = sorted(Path("out").iterdir())
    again = run("busy.sql", "--json")
    assert again.exit_code == 0
    assert "this query has finished; nothing was done; results are in out" in again.stderr
    assert (last_json(again)["state"], last_json(again)["epochs"]) == ("finished", 0)
    assert sorted(Path("out").iterdir()) == before


def test_until_stops_and_the_same_command_goes_on_with_other_sites() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    first = run("busy.sql", "--until", "2 epochs", "--set", "rows_per_epoch=1000", "--json")
    assert (last_json(first)["epochs"], last_json(first)["state"]) == (2, "stopped")
    assert "the same command continues from here" in first.stderr
    second = run("busy.sql", "--sites", "5", "--json")
    assert (last_json(second)["rows_in"], last_json(second)["state"]) == (3000, "finished")
    assert rows_in("out")[1] == 5000


def test_a_lead_is_a_span_with_its_unit() -> None:
    Path("busy.sql").write_text("SET max_lead = '5s';\n" + calls() + to_files())
    refused = run("busy.sql", "--set", "max_lead=5")
    assert (refused.exit_code, "has no unit" in refused.stderr) == (1, True)
    some = run("busy.sql", "--until", "1 epochs", "--set", "rows_per_epoch=100", "--json")
    assert last_json(some)["state"] == "stopped"
    rest = run("busy.sql", "--set", "max_lead=1m", "--json")
    assert last_json(rest)["state"] == "finished"


def test_late_rows_are_counted_and_their_place_is_told() -> None:
    script = calls(disorder="4s").replace("INTERVAL '2' SECOND", "INTERVAL '10' MILLISECOND")
    Path("busy.sql").write_text(script + to_files())
    result = run("busy.sql", "--set", "rows_per_epoch=1000", "--json")
    late = last_json(result)["late_rows"]
    assert late > 0
    assert f"late rows   {late:,}, in .penstock/busy-busy/late" in result.stderr
    assert rows_in("out")[1] == 5000 - late


class Splitter:
    """Splits the first group, and wants a group moved that there is not."""

    name = "splitter"

    def decide(self, figures: RoundStats) -> Sequence[Decision]:
        splits = (
            [Decision(SplitGroup(figures.directory.groups[0]), "to see")] if len(figures.directory.groups) < 34 else []
        )
        return [*splits, Decision(Move(Group(1, 60), 0, 1), "to see")]


def test_what_was_decided_is_counted_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(policies._known, "splitter", Splitter())
    Path("busy.sql").write_text(calls() + to_files())
    few = ("--set", "rows_per_epoch=500", "--set", "round=1us")
    decided = run("busy.sql", *few, "--set", "policy=splitter", "--json")
    assert re.search(r"^  adapted     2 splits, \d+ refused$", decided.stderr, re.MULTILINE)
    facts = last_json(decided)["decisions"]
    assert (facts["split"], facts.keys()) == (2, {"split", "refused"})
    Path("calm.sql").write_text(calls() + to_files(path="calm"))
    calm = run("calm.sql", *few, "--set", "policy=static", "--json")
    assert "adapted" not in calm.stderr
    assert last_json(calm)["decisions"] == {}
    Path("two.sql").write_text(calls() + to_files("a", "out-a") + to_files("b", "out-b"))
    both = last_json(run("two.sql", *few, "--set", "policy=splitter", "--json"))
    assert both["decisions"]["split"] == sum(query["decisions"]["split"] for query in both["queries"]) == 4


def test_several_sinks_have_a_checkpoint_each(folder: Path) -> None:
    Path("two.sql").write_text(calls() + to_files("a", "out-a") + to_files("b", "out-b"))
    result = run("two.sql", "--json")
    assert result.exit_code == 0, result.output
    facts = last_json(result)
    assert [q["name"] for q in facts["queries"]] == ["a", "b"]
    assert [q["checkpoint"] for q in facts["queries"]] == [str(folder / ".penstock" / f"two-{n}") for n in "ab"]
    assert (facts["rows_in"], facts["state"]) == (10_000, "finished")
    assert rows_in("out-a") == rows_in("out-b")


def test_a_given_checkpoint_is_shared_out_among_several_sinks() -> None:
    Path("two.sql").write_text(calls() + to_files("a", "out-a") + to_files('"../b"', "out-b"))
    run("two.sql", "--checkpoint", "ck/here")
    assert sorted(p.name for p in Path("ck/here").iterdir()) == ["%2E.%2Fb", "a"]


def test_a_given_checkpoint_is_used_as_it_is_by_one_sink() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    run("busy.sql", "--checkpoint", "ck")
    assert (Path("ck") / "manifests").is_dir()
    assert not Path(".penstock").exists()


def test_a_query_without_a_sink_prints_its_rows() -> None:
    Path("shown.sql").write_text(calls(rows=100) + COUNT)
    result = run("shown.sql", "--json")
    assert result.exit_code == 0, result.output
    assert "window_start" in result.stdout
    assert last_json(result)["results"] is None


def test_a_script_sets_settings_and_flags_are_stronger() -> None:
    script = "SET rows_per_epoch = 500; SET until = '9 epochs';" + calls() + to_files()
    Path("busy.sql").write_text(script)
    assert last_json(run("busy.sql", "--until", "3 epochs", "--json"))["rows_in"] == 1500
    assert last_json(run("busy.sql", "--set", "rows_per_epoch=10", "--json"))["rows_in"] == 90


def test_a_stream_of_a_module_prints_and_a_ready_query_goes_where_it_says(folder: Path) -> None:
    Path("phones.py").write_text(
        "import penstock as ps\n"
        "calls = ps.read.calls(rows=50, rate=10)\n"
        "busy = calls.window(ps.tumbling('1s')).agg(n=ps.count())\n"
        "kept = busy.to.files('kept')\n"
    )
    printed = run("phones:busy")
    assert printed.exit_code == 0, printed.output
    assert "window_start" in printed.stdout
    assert last_json(run("phones:kept", "--json"))["results"] == str(folder / "kept")
    assert rows_in("kept") == (5, 50)
    assert Path(".penstock/phones-kept").is_dir()


def test_explain_shows_each_plan_and_runs_nothing() -> None:
    Path("two.sql").write_text(calls() + to_files("a", "out-a") + COUNT)
    result = penstock("explain", "two.sql")
    assert result.exit_code == 0, result.output
    assert "-- a\nsource calls (calls)" in result.stdout
    assert "tumbling 1s" in result.stdout
    assert "-- query_1\n" in result.stdout
    assert sorted(p.name for p in Path.cwd().iterdir()) == ["two.sql"]
