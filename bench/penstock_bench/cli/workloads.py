"""`penstock bench` of workloads, on Penstock and its peers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from penstock.cli.errors_shown import FAILED
from penstock.errors import ConfigError
from penstock_bench.cli.gather import gathered
from penstock_bench.profile.shares import Profile
from penstock_bench.profile.table import profile_bars, profile_table
from penstock_bench.report.page import write_report
from penstock_bench.report.records import OURS
from penstock_bench.report.table import as_lines, as_table
from penstock_bench.run.measurement import Measurement
from penstock_bench.run.runner import DEFAULT_ROWS, measured_workloads
from penstock_bench.system import Limits

DEFAULT_REPEAT = 3
PIPED_WIDTH = 160


@dataclass(frozen=True)
class BenchOptions:
    """What the command line asks for; None where it says nothing. A word of `systems` may be several names, between
    commas."""

    names: Sequence[str]
    systems: Sequence[str] = ()
    rows: int | None = None
    repeat: int | None = None
    work: Path = Path("bench-work")
    memory: int | None = None
    files_per_trigger: str | None = None
    report: Path | None = None
    quick: bool = False
    json: bool = False
    profile: bool = False


def run_and_report(options: BenchOptions) -> int:
    """Run workloads; the exit code is not 0 where a system failed or gave a wrong answer, or after Ctrl-C."""
    tell = partial(print, file=sys.stderr, flush=True)
    workloads = measured_workloads(
        options.names,
        words(options.systems),
        options.rows or DEFAULT_ROWS,
        options.repeat or DEFAULT_REPEAT,
        options.work,
        limits=Limits() if options.memory is None else Limits(memory_gib=options.memory),
        files_per_trigger=batch_sizes(options.files_per_trigger),
        tell=tell,
    )
    finished, interrupted = gathered(workloads, as_lines if options.json else None, partial(_write_report, options))
    measured = [one for workload in finished for one in workload]
    if not options.json:
        _show(measured, _profiles(measured) if options.profile else {})
    if options.report is not None:
        tell(f"report: {options.report / 'index.html'}")
    return interrupted or (0 if all(one.holds for one in measured) else FAILED)


def _write_report(options: BenchOptions, finished: Sequence[Sequence[Measurement]]) -> None:
    if options.report is not None:
        measured = [one for workload in finished for one in workload]
        write_report(measured, options.report, profiles=_profiles(measured), command=_command())


def _profiles(measured: Sequence[Measurement]) -> dict[str, Profile]:
    return {one.workload: one.profile for one in measured if one.system == OURS and one.profile is not None}


def _show(measured: Sequence[Measurement], profiles: Mapping[str, Profile]) -> None:
    console = console_of_width()
    console.print(as_table(measured))
    for workload, profile in profiles.items():
        console.rule(f"{workload}: where the time of Penstock goes")
        console.print(profile_bars(profile))
        console.print(profile_table(profile))


def _command() -> str:
    """What was typed, without the way to it."""
    return shlex.join(["penstock", *sys.argv[1:]])


def console_of_width() -> Console:
    """What is piped or redirected has no width of its own to be cut to."""
    return Console() if sys.stdout.isatty() else Console(width=PIPED_WIDTH)


def words(lists: Sequence[str]) -> list[str]:
    """The names in all the lists."""
    return [name.strip() for listed in lists for name in listed.split(",") if name.strip()]


def batch_sizes(listed: str | None) -> list[int]:
    sizes = words([listed] if listed else [])
    wrong = [size for size in sizes if not size.isdecimal() or int(size) == 0]
    if wrong:
        raise ConfigError(
            "--files-per-trigger takes whole numbers between commas",
            detail=f"not a number of files: {', '.join(wrong)}",
            hint="--files-per-trigger 1,2,5,10",
        )
    return [int(size) for size in sizes]
