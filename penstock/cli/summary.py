"""Summary at the end of a command: text on stderr, and one line of JSON on stdout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from penstock.cli.counted import counted
from penstock.cli.running import Ended
from penstock.connectors.sinks.files import FilesSink
from penstock.settings import INLINE

_SUMMED = ("epochs", "rows_in", "rows_out", "late_rows", "bad_rows", "disk_bytes")


def results_of(ended: Ended) -> Path | None:
    """Return the folder of the results; None if they went to the terminal or stayed in memory."""
    sink = ended.job.ready.sink.connector
    return sink.folder(ended.run.checkpoint, "results") if isinstance(sink, FilesSink) else None


def shown_path(path: Path) -> str:
    """Return the path, relative if it lies below the current folder."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else absolute)


def summary_lines(ended: Ended, master: str, several: bool = False, how_to_go_on: str = "") -> Iterator[str]:
    """Yield the lines of the summary of one query. `how_to_go_on` is added for a query that has not finished."""
    prefix = f"{ended.job.name}: " if several else ""
    yield prefix + (_nothing_done(ended) if ended.was_finished else _what_happened(ended, master))
    if not ended.was_finished:
        yield from _where(ended, how_to_go_on)


def _nothing_done(ended: Ended) -> str:
    results = results_of(ended)
    where = f"; results are in {shown_path(results)}" if results else ""
    return f"this query has finished; nothing was done{where} (checkpoint {shown_path(ended.run.checkpoint)})"


def _what_happened(ended: Ended, master: str) -> str:
    """Return the main line. Its first time counts from the start of the command, as the user's clock does; its rate is
    that of the epochs."""
    p = ended.run.progress
    where = "in process" if master == INLINE else f"on Spark {master}"
    return (
        f"{p.state} {where} after {_seconds(ended.starting + p.seconds)}: {_seconds(ended.starting)} to start, "
        f"{counted(p.epochs, 'epoch')} in {_seconds(p.seconds)}, {counted(p.rows_in, 'row')} in "
        f"({p.rows_per_second:,.0f} rows/s), {counted(p.rows_out, 'row')} out"
    )


def _seconds(seconds: float) -> str:
    """Return a time with one decimal, or with two digits that are not zero if it is less than a second."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{float(f'{seconds:.2g}'):f}".rstrip("0").rstrip(".") + " s"


def _where(ended: Ended, how_to_go_on: str) -> Iterator[str]:
    """Yield the lines about results, diverted rows, decisions and the checkpoint."""
    p, results = ended.run.progress, results_of(ended)
    if results is not None:
        yield f"  results     {shown_path(results)}"
    for label, rows, output in (("late rows", p.late_rows, "late"), ("bad rows", p.bad_rows, "bad")):
        yield f"  {label:<12}{rows:,}" + (f", in {shown_path(ended.run.folder(output))}" if rows else "")
    if made := _decisions(ended.run.decisions):
        yield f"  adapted     {made}"
    if ended.job.checkpoint is None:
        return
    goes_on = f"; {how_to_go_on}" if how_to_go_on and p.state == "stopped" else ""
    yield f"  checkpoint  {shown_path(ended.run.checkpoint)}{goes_on}"


def _decisions(made: Mapping[str, int]) -> str:
    """Return the numbers of decisions as text; refused ones last."""
    carried_out = [counted(count, what) for what, count in sorted(made.items()) if what != "refused"]
    refused = [f"{made['refused']:,} refused"] if made.get("refused") else []
    return ", ".join(carried_out + refused)


def json_line(ended: Sequence[Ended]) -> str:
    """Return the summary as one JSON object. Several queries are added up, and listed under `queries`."""
    facts = [_facts(one) for one in ended]
    return msgspec.json.encode(facts[0] if len(facts) == 1 else _together(facts)).decode()


def _facts(ended: Ended) -> dict[str, Any]:
    p, results = ended.run.progress, results_of(ended)
    return {
        "name": ended.job.name,
        **{name: getattr(p, name) for name in _SUMMED},
        "seconds": round(p.seconds, 3),
        "starting_seconds": round(ended.starting, 3),
        "rows_per_second": round(p.rows_per_second, 1),
        "disk_limit": p.disk_limit,
        "decisions": dict(ended.run.decisions),
        "state": p.state,
        "checkpoint": None if ended.job.checkpoint is None else str(ended.run.checkpoint),
        "results": None if results is None else str(results),
    }


def _together(facts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    seconds = max(one["seconds"] for one in facts)
    rows = sum(one["rows_in"] for one in facts)
    return {
        **{name: sum(one[name] for one in facts) for name in _SUMMED},
        "seconds": seconds,
        "starting_seconds": max(one["starting_seconds"] for one in facts),
        "rows_per_second": round(rows / seconds, 1) if seconds else 0.0,
        "decisions": sum((Counter(one["decisions"]) for one in facts), Counter[str]()),
        "state": "finished" if all(one["state"] == "finished" for one in facts) else "stopped",
        "checkpoint": None,
        "results": None,
        "queries": list(facts),
    }
