from __future__ import annotations

import json

from rich.console import Console

from penstock.bench.report import as_json, as_table
from penstock.bench.runner import Measurement, Trial
from penstock.bench.systems import Limits


def measured(workload: str, system: str, seconds: float, right: bool = True) -> Measurement:
    trial = Trial(seconds, 1000, 3 * 2**20, right, "1 rows right, 2 missing")
    return Measurement(workload, system, Limits(), (trial,))


ALL = [
    measured("tumble", "spark", 4.0),
    measured("tumble", "penstock", 1.0),
    measured("tumble", "duckdb", 0.5),
    measured("slide", "spark", 8.0, right=False),
    measured("slide", "spark-rocksdb", 4.0),
]


def printed(measurements: list[Measurement]) -> list[str]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(as_table(measurements))
    return capture.get().splitlines()


def test_json_has_exactly_the_promised_keys() -> None:
    found = json.loads(as_json(ALL))
    keys = ["workload", "system", "rows_per_second", "seconds", "peak_memory_bytes", "equal", "ratio"]
    assert [list(one) for one in found] == [keys] * len(ALL)
    assert found[0] == {
        "workload": "tumble", "system": "spark", "rows_per_second": 250.0, "seconds": 4.0,
        "peak_memory_bytes": 3 * 2**20, "equal": True, "ratio": 4.0,
    }  # fmt: skip


def test_ratio_is_penstocks_rate_over_the_systems() -> None:
    assert [one["ratio"] for one in json.loads(as_json(ALL))] == [4.0, 1.0, 0.5, None, None]


def test_the_table_compares_with_penstock_or_else_the_best_spark() -> None:
    lines = printed(ALL)
    row = {tuple(line.split("│")[1:3]): line for line in lines if line.startswith("│")}
    cells = {(w.split(":")[0].strip(), s.strip()): line.split("│")[6].strip() for (w, s), line in row.items()}
    assert cells["tumble", "spark"] == "4.00"
    assert cells["tumble", "duckdb"] == "0.50"
    assert cells["slide", "spark"] == "2.00"
    assert cells["slide", "spark-rocksdb"] == "1.00"


def test_a_wrong_result_cannot_be_overlooked() -> None:
    assert any("NO: 1 rows right, 2 missing" in line for line in printed(ALL))
