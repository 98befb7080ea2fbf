from __future__ import annotations

import json
from typing import Any

from rich.console import Console

from penstock_bench.report.table import as_json, as_table
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.system import Limits


def measured(workload: str, system: str, *seconds: float, right: bool = True, epochs: int = 0) -> Measurement:
    trials = tuple(Trial(one, 1000, 3 * 2**20, right, "1 rows right, 2 missing", 5, epochs) for one in seconds)
    return Measurement(workload, system, Limits(), trials)


ALL = [
    measured("tumble", "spark", 5.0, 3.0, 4.0, epochs=10),
    measured("tumble", "penstock", 1.0, epochs=7),
    measured("tumble", "duckdb", 0.5),
    Measurement("tumble", "flink", Limits(), (), refused="not installed: run [make] flink"),
    measured("slide", "spark", 8.0, right=False),
    Measurement("slide", "spark-rocksdb", Limits(), (), failed="out of memory\n  detail: a long story"),
]


def printed(measurements: list[Measurement]) -> list[str]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(as_table(measurements))
    return capture.get().splitlines()


def cells(measurements: list[Measurement]) -> dict[str, list[str]]:
    """The cells of the first table by system; the workload's name is only in its first line."""
    rows = [[cell.strip() for cell in line.split("│")[2:-1]] for line in printed(measurements) if line.startswith("│")]
    return {row[0]: row for row in rows if len(row) == 8}


def told() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(as_json(ALL))
    return found


def test_json_has_the_promised_keys_and_values() -> None:
    promised = ["workload", "system", "rows_per_second", "seconds", "peak_memory_bytes", "equal", "ratio"]
    assert [list(one)[:7] for one in told()] == [promised] * len(ALL)
    assert told()[0] == {
        "workload": "tumble", "system": "spark", "rows_per_second": 250.0, "seconds": 4.0,
        "peak_memory_bytes": 3 * 2**20, "equal": True, "ratio": 4.0, "spread": [3.0, 5.0], "epochs": 10, "trials": 3,
        "rows": 1000, "refused": None, "failed": None, "detail": "",
    }  # fmt: skip


def test_ratio_is_penstocks_rate_over_the_systems() -> None:
    assert [one["ratio"] for one in told()] == [4.0, 1.0, 0.5, None, None, None]


def test_a_system_without_trials_has_a_reason_and_no_figures() -> None:
    refused, failed = told()[3], told()[5]
    assert refused["refused"] == "not installed: run [make] flink"
    assert failed["failed"].startswith("out of memory")
    for one in (refused, failed):
        assert [one[key] for key in ("rows_per_second", "seconds", "peak_memory_bytes", "equal", "spread")] == [
            None
        ] * 5


def test_the_table_shows_every_figure() -> None:
    found = cells(ALL[:4])
    assert found["spark"] == ["spark", "250", "4.00", "3.00..5.00", "4.00", "3 MiB", "10", "yes"]
    assert found["duckdb"] == ["duckdb", "2,000", "0.50", "0.50..0.50", "0.50", "3 MiB", "-", "yes"]
    assert found["flink"] == ["flink", "-", "-", "-", "-", "-", "-", "refused: not installed: run [make] flink"]


def test_wrong_and_failed_systems_cannot_be_overlooked() -> None:
    found = cells(ALL[4:])
    assert found["spark"][-1] == "NO: 1 rows right, 2 missing"
    assert found["spark-rocksdb"][-1] == "failed: out of memory"


def test_below_the_table_stand_the_bars() -> None:
    lines = [line for line in printed(ALL) if "times" in line and "│ tumble" in line]
    assert [("reached" in line, "missed" in line) for line in lines] == [(False, True), (False, False), (True, False)]
    assert "4.00 times" in lines[0]
    assert "not installed" in lines[1]
    assert "2.00 times its time" in lines[2]
