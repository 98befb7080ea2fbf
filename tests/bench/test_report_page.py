from __future__ import annotations

import json
import re
import socket
from getpass import getuser
from html.parser import HTMLParser
from pathlib import Path

from penstock_bench.profile.shares import EpochProfile, profile_of
from penstock_bench.report.machine import flink_version, java_version, machine
from penstock_bench.report.plots import MEMORY, RATES, chart_svg
from penstock_bench.report.records import Record
from penstock_bench.report.table import write_report
from penstock_bench.run.measurement import Measurement, Trial
from penstock_bench.system import Limits

PROFILE = profile_of([EpochProfile(3, 1.0, {"plan": 0.4, "run": 0.6}, ())], 2)


def measured(system: str, *seconds: float, right: bool = True) -> Measurement:
    trials = tuple(Trial(one, 1000, 3 * 2**20, right, "2 missing", 5, 7) for one in seconds)
    return Measurement("tumble", system, Limits(), trials)


ALL = [
    measured("penstock", 1.0, 1.1, 1.2),
    measured("spark", 40.0, 44.0, 48.0),
    measured("duckdb", 0.1, 0.1, 0.1),
    Measurement("tumble", "flink", Limits(), (), refused="no <such> thing"),
]


class Page(HTMLParser):
    """The rows of a page's tables as text; complains about tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in ("meta",):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def page_of(measurements: list[Measurement], folder: Path) -> str:
    return write_report(measurements, folder, profiles={"tumble": PROFILE}).read_text(encoding="utf-8")


def test_the_page_has_every_figure_and_the_bars(tmp_path: Path) -> None:
    text = page_of(ALL, tmp_path)
    rows = Page(text).rows
    reached = "at least 20 times: reached"
    assert ["spark", "23", "44.00", "40.00..48.00", "3 MiB", "7", "40.0", "yes", reached] in rows
    assert ["flink", *["-"] * 6, "refused: no <such> thing", ""] in rows
    assert ["tumble", "DuckDB batch", "at most 4 times its time", "11.00 times its time", "duckdb", "missed"] in rows
    assert ["driver", "plan", "0.400", "40.0%", "400.0 ms", "400.0 ms", "1.67"] in rows
    assert "1 of 3 bars reached. Every result is equal to the batch answer." in text


def test_the_page_needs_nothing_else(tmp_path: Path) -> None:
    text = page_of(ALL, tmp_path)
    assert not {"script", "link", "img", "iframe"} & set(Page(text).tags)
    assert not re.search(r'(src|href)="(?!#)', text)
    assert "<metadata" not in text  # in which matplotlib names its own site
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bench.json", "index.html"]


def test_the_page_names_no_host_user_or_folder(tmp_path: Path) -> None:
    text = page_of(ALL, tmp_path)
    words = set(re.findall(r"[\w.-]+", text.partition("<h2>Machine</h2>")[2]))
    assert "Python" in words
    assert not {socket.gethostname(), getuser(), tmp_path.name} & words
    assert "/home" not in text
    assert str(Path.cwd()) not in text


def test_the_figures_lie_beside_the_page(tmp_path: Path) -> None:
    page_of(ALL, tmp_path)
    found = json.loads((tmp_path / "bench.json").read_text())
    assert [one["system"] for one in found] == ["penstock", "spark", "duckdb", "flink"]


def test_wrong_results_and_failures_are_said_first(tmp_path: Path) -> None:
    failed = Measurement("tumble", "spark-rocksdb", Limits(), (), failed="it broke")
    text = page_of([*ALL, measured("spark-panes", 1.0, right=False), failed], tmp_path)
    start = text.partition("<h2>")[0]
    assert "WRONG RESULTS: spark-panes on tumble. Failed: spark-rocksdb on tumble." in start
    assert "Every result is equal" not in start


def test_how_to_repeat_it(tmp_path: Path) -> None:
    systems = "--system penstock --system spark --system duckdb --system flink"
    assert f"penstock bench tumble {systems} --repeat 3" in page_of(ALL, tmp_path)
    given = write_report(ALL, tmp_path, command="penstock bench tumble --rows 7").read_text()
    assert "<pre>penstock bench tumble --rows 7</pre>" in given


def test_charts_and_profiles_are_on_the_page(tmp_path: Path) -> None:
    assert page_of(ALL, tmp_path).count("<svg") == 3


def test_a_chart_shows_spread_goal_and_wrong_results() -> None:
    rows = [
        Record("tumble", "penstock", 2e6, 2.0, 2**30, True, 1.0, (1.9, 2.4)),
        Record("tumble", "spark", 1e5, 40.0, 2**31, False, 20.0, (40.0, 40.0)),
        Record("tumble", "flink", refused="no"),
    ]
    plain, marked = chart_svg(RATES, rows), chart_svg(RATES, rows, {"tumble": 3e6})
    assert {"2.00 M", "100 k  WRONG", "penstock"} <= set(re.findall(r">\s*([^<>]+?)\s*<", plain))
    assert "flink" not in plain
    assert marked.count("stroke-dasharray") == plain.count("stroke-dasharray") + 1
    assert chart_svg(RATES, rows[2:]) == ""
    assert "2.0  WRONG" in chart_svg(MEMORY, rows)


def test_the_error_bar_spans_the_trials() -> None:
    row = Record("tumble", "penstock", 1000.0, 2.0, 1, True, 1.0, (1.0, 4.0))
    assert RATES.bounds(row) == (500.0, 2000.0)


def test_the_machine_is_described() -> None:
    facts = machine()
    assert {"cores", "memory", "Python", "pyspark", "duckdb"} <= set(facts)
    assert int(facts["cores"]) >= 1
    assert all(facts.values())


def test_versions_are_found_in_what_is_there(tmp_path: Path) -> None:
    assert java_version('openjdk version "17.0.9" 2023-10-17\nOpenJDK Runtime') == "17.0.9"
    assert java_version("sh: no java") == ""
    assert flink_version(tmp_path) == ""
    (tmp_path / "lib/python3.11/site-packages/apache_flink-2.1.0.dist-info").mkdir(parents=True)
    assert flink_version(tmp_path) == "2.1.0"
