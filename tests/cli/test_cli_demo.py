"""The demo: its script, its screen, and the whole of it, once without Spark and once with it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import datetime
from io import StringIO
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_case import penstock
from rich.console import Console

import penstock as package
from penstock.api.run_state import Progress
from penstock.api.script import read_script
from penstock.cli.demo import DemoScreen, DemoSites, busiest_move
from penstock.cli.demo_query import Results, Suspect, demo_script, new_folder
from penstock.control.requests import MoveRequest
from penstock.control.status import GroupStatus, SiteStatus, SubqueryStatus


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def publish(name: str, *rows: tuple[int, int, int]) -> None:
    """Results in a file: caller, second in which the window ends, calls."""
    Path("results").mkdir(exist_ok=True)
    table = [
        {"caller": c, "window_end": datetime(2024, 1, 31, 12, 0, s), "calls": n, "callees": n // 2, "mean_seconds": 1.5}
        for c, s, n in rows
    ]
    pq.write_table(pa.Table.from_pylist(table), f"results/{name}.parquet")


def test_the_latest_window_is_shown_with_what_changed() -> None:
    results = Results(Path("results"))
    publish("e1", (1, 10, 100), (2, 10, 50))
    results.read_new()
    publish("e2", (1, 12, 90), (3, 12, 200), (1, 8, 999))
    results.read_new()
    assert results.latest == datetime(2024, 1, 31, 12, 0, 12)
    assert results.suspects(5) == [Suspect(3, 200, 100, 1.5, 0), Suspect(1, 90, 45, 1.5, 100)]
    assert results.suspects(1) == [Suspect(3, 200, 100, 1.5, 0)]


def test_a_window_that_comes_in_two_files_is_one() -> None:
    results = Results(Path("results"))
    publish("e1-site-0", (1, 10, 100))
    publish("e1-site-1", (2, 10, 50))
    results.read_new()
    assert [s.caller for s in results.suspects(5)] == [1, 2]


def test_the_screen_has_the_facts_and_the_callers() -> None:
    publish("e1", (4711, 10, 12_345))
    console = Console(file=StringIO(), width=100, height=40)
    sites = DemoSites(Path("nowhere"), 10.0)
    screen = DemoScreen(Results(Path("results")), threshold=5000, seconds=30, sites=sites, console=console)
    console.print(screen.drawn(Progress(epoch=7, epochs=7, rows_in=1_234_567, late_rows=89, rows_out=1)))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for fact in (
        "4711",
        "12,345",
        "new",
        "1,234,567",
        "89",
        "late on purpose",
        "more than 5,000 calls",
        "12:00:10",
        "s left",
    ):
        assert fact in shown


def test_each_demo_has_a_folder_of_its_own() -> None:
    assert [new_folder(), new_folder()] == [Path("demo-out/run-1"), Path("demo-out/run-2")]


def test_the_script_of_the_demo_is_a_script() -> None:
    (query,) = read_script(demo_script(Path("demo-out/run-1"), 1000)).queries
    assert query.name == "suspicious"
    assert "sliding 10s every 2s" in query.ready.explain()


def check_demo(output: str) -> None:
    assert list(Path("demo-out/run-1/results").glob("*.parquet"))
    assert "late on purpose" in output
    assert re.search(r"move [01]+ from site \d to site \d", output), "a group that moves"
    for fact in ("demo-out/run-1/results", "Next:", "penstock run demo-out/run-1/"):
        assert fact in output


def test_the_demo_ends_by_itself_with_results_and_late_rows() -> None:
    result = penstock("demo", "--seconds", "7", "--rate", "5000", "--master", "inline")
    assert result.exit_code == 0, result.output
    check_demo(result.stdout)
    assert list(Path("demo-out/run-1/checkpoint/late").glob("*.parquet"))
    assert "demo-out/run-1/checkpoint/late" in result.stdout


@pytest.mark.spark
def test_the_demo_on_spark_and_nothing_of_sparks_chatter() -> None:
    """In a process of its own: the Spark of this one would be shared with the tests that come after."""
    command = [sys.executable, "-m", "penstock.cli.main", "demo", "--seconds", "8", "--rate", "5000"]
    home = str(Path(package.__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": home, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([*command, "--master", "local[2]"], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    check_demo(done.stdout)


def test_the_busiest_group_moves_to_the_least_busy_site() -> None:
    sites = (SiteStatus(1.0, 0.9, 0.0, 1, 2), SiteStatus(1.0, 0.5, 0.0, 1, 1), SiteStatus(1.0, 0.1, 0.0, 1, 1))
    groups = (GroupStatus("00", 0, 1.0, 0.2, 0, 1), GroupStatus("01", 0, 1.0, 0.7, 0, 1))
    assert busiest_move(SubqueryStatus("aggregate", sites, groups)) == MoveRequest("01", 2, 0)
    assert busiest_move(SubqueryStatus("aggregate", sites[:1], groups)) is None
    assert busiest_move(SubqueryStatus("aggregate", sites)) is None
