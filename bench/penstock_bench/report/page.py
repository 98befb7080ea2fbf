"""The report of a benchmark: one HTML page with tables, charts and profiles, and the records as JSON beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from penstock_bench.profile.picture import profile_svg
from penstock_bench.profile.shares import Profile
from penstock_bench.profile.table import CAPTION as PROFILE_CAPTION
from penstock_bench.profile.table import HEADINGS, part_cells
from penstock_bench.report import words as report_words
from penstock_bench.report.html import Cell, Row, code, heading, page, paragraph, table
from penstock_bench.report.machine import machine
from penstock_bench.report.plots import MEMORY, RATES, chart_svg
from penstock_bench.report.records import OURS, Record, by_workload, records, records_json
from penstock_bench.report.verdicts import Verdict, goals, verdicts
from penstock_bench.run.measurement import Measurement
from penstock_bench.workloads import WORKLOADS

PAGE, DATA = "index.html", "bench.json"
METHOD = (
    "All systems read the same rows, in turns, each run in a process of its own, on the same cores, after a warm-up on "
    "little data. Seconds are the median of the trials, from the start of the query to its end; results are written, "
    "and compared with the batch answer. Memory is the peak of all processes of a system. The ratio is Penstock's rows "
    "per second over the system's: above 1, Penstock is faster. DuckDB answers in one batch, and is the limit."
)
_MARKS = {"reached": "good", "missed": "bad", "not measured": "soft"}
_FIGURES = ("rows/s", "seconds", "min..max", "peak memory", "epochs", "ratio")


def write_report(
    measurements: Sequence[Measurement],
    folder: Path,
    *,
    profiles: Mapping[str, Profile] | None = None,
    command: str | None = None,
) -> Path:
    """Write the page and the JSON into a folder; gives the path of the page. `profiles` are those of Penstock, by
    workload; `command` is what to type for the same again."""
    folder.mkdir(parents=True, exist_ok=True)
    found = records(measurements)
    (folder / DATA).write_text(records_json(found) + "\n", encoding="utf-8")
    (folder / PAGE).write_text(report_html(found, profiles or {}, command or _command(found)), encoding="utf-8")
    return folder / PAGE


def report_html(found: Sequence[Record], profiles: Mapping[str, Profile], command: str) -> str:
    judged = verdicts(found)
    parts = [paragraph(summary(found, judged)), paragraph(METHOD, "soft"), *_bars(judged), *_charts(found, judged)]
    for workload, here in by_workload(found).items():
        parts += _workload(workload, here, [one for one in judged if one.bar.workload == workload])
    for workload, profile in profiles.items():
        parts += _profile(workload, profile)
    return page("Penstock and its peers", [*parts, *_machine(), *_repeat(command)])


def summary(found: Sequence[Record], judged: Sequence[Verdict]) -> str:
    """The outcome in a few sentences."""
    told = [f"{date.today().isoformat()}."]
    if judged:
        told.append(f"{sum(one.outcome == 'reached' for one in judged)} of {len(judged)} bars reached.")
    wrong = [f"{record.system} on {record.workload}" for record in found if record.equal is False]
    failed = [f"{record.system} on {record.workload}" for record in found if record.failed is not None]
    right = any(record.equal for record in found) and not wrong
    told += ["Every result is equal to the batch answer."] if right else []
    told += [f"WRONG RESULTS: {', '.join(wrong)}."] if wrong else []
    return " ".join(told + ([f"Failed: {', '.join(failed)}."] if failed else []))


def _bars(judged: Sequence[Verdict]) -> Iterator[str]:
    if judged:
        names = ("workload", "against", "bar", "measured", "by", "")
        yield heading("Bars")
        yield table([Cell(name, "text") for name in names], [_bar(one) for one in judged])


def _bar(one: Verdict) -> Row:
    cells = [one.bar.workload, one.bar.peer, one.bar.text, one.text, one.against or ""]
    return Row([*(Cell(text, "text") for text in cells), Cell(one.outcome, f"text {_MARKS[one.outcome]}")])


def _charts(found: Sequence[Record], judged: Sequence[Verdict]) -> Iterator[str]:
    if drawn := chart_svg(RATES, found, goals(found, judged)):
        yield heading("Rows per second") + drawn
        yield heading("Peak memory") + chart_svg(MEMORY, found)


def _workload(name: str, here: Sequence[Record], judged: Sequence[Verdict]) -> Iterator[str]:
    known = WORKLOADS.get(name)
    yield heading(name if known is None else f"{name}: {known.title}")
    rows = {f"{record.rows:,} rows, {record.trials} trials" for record in here if record.rows is not None}
    yield paragraph("; ".join(sorted(rows)), "soft") if rows else ""
    titles = [Cell("system", "text"), *map(Cell, _FIGURES), Cell("equal", "text"), Cell("bar", "text")]
    yield table(titles, [_system(record, judged) for record in here])


def _system(record: Record, judged: Sequence[Verdict]) -> Row:
    words = report_words
    figures = [words.rate, words.seconds, words.spread, words.memory, words.epochs, words.ratio]
    good = "good" if not record.trouble else "soft" if record.refused is not None else "bad"
    cells = [
        Cell(record.system, "text"),
        *(Cell(figure(record)) for figure in figures),
        Cell(words.result(record), f"text {good}"),
        _bar_of(record.system, judged),
    ]
    return Row(cells, "ours" if record.system == OURS else "")


def _bar_of(system: str, judged: Sequence[Verdict]) -> Cell:
    """The bar in the line of the system that it was measured against."""
    one = next((one for one in judged if one.against == system), None)
    return Cell("") if one is None else Cell(f"{one.bar.text}: {one.outcome}", f"text {_MARKS[one.outcome]}")


def _profile(workload: str, profile: Profile) -> Iterator[str]:
    yield heading(f"Profile of Penstock on {workload}")
    yield profile_svg(profile)
    yield paragraph(f"{PROFILE_CAPTION}.", "soft")
    lines = [part_cells(profile, part) for part in profile.total]
    kinds = ["text" if number < 2 else "" for number in range(len(HEADINGS))]
    yield table(list(map(Cell, HEADINGS, kinds)), [Row(list(map(Cell, line, kinds))) for line in lines])


def _machine() -> Iterator[str]:
    yield heading("Machine")
    yield table([], [Row([Cell(name, "text soft"), Cell(value, "text")]) for name, value in machine().items()])


def _repeat(command: str) -> Iterator[str]:
    yield heading("How to repeat it")
    yield code(command)
    yield paragraph(f"The figures of this page are in {DATA}, one object per workload and system.", "soft")


def _command(found: Sequence[Record]) -> str:
    """What to type for these workloads, systems and trials."""
    workloads = " ".join(by_workload(found))
    systems = " ".join(f"--system {name}" for name in dict.fromkeys(record.system for record in found))
    return f"penstock bench {workloads} {systems} --repeat {max((record.trials for record in found), default=1)}"
