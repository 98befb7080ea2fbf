"""`penstock bench` with the names of experiments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from penstock.cli.errors_shown import FAILED
from penstock.errors import ConfigError, did_you_mean
from penstock_bench.cli.gather import gathered
from penstock_bench.cli.workloads import console_of_width
from penstock_bench.experiments.by_name import EXPERIMENTS, experiment_names, spelled_out
from penstock_bench.experiments.experiment import Setting
from penstock_bench.experiments.report import Found, as_json, as_line, as_tables


def run_experiments(
    names: Sequence[str], repeat: int, work: Path, json: bool, report: Path | None, quick: bool = False
) -> int:
    """Run experiments; the exit code is not 0 where a result is wrong or a bar is missed, or after Ctrl-C."""
    tell = partial(print, file=sys.stderr, flush=True)
    setting = Setting(repeat, work, quick, report, tell=tell)
    experiments = [EXPERIMENTS[name] for name in known(names)]
    measured = ((one.as_run(quick), one.measure(setting)) for one in experiments)
    found, interrupted = gathered(measured, as_line if json else _shown, partial(_keep, report))
    if report is not None:
        tell(f"report: {', '.join(map(str, write_report(found, report)))}")
    return interrupted or (0 if all(finding.holds for _, finding in found) else FAILED)


def _shown(found: Found) -> str:
    """One experiment as text for the terminal."""
    console = console_of_width()
    with console.capture() as captured:
        console.print(as_tables([found]))
    return captured.get()


def _keep(report: Path | None, found: Sequence[Found]) -> None:
    if report is not None:
        write_report(found, report)


def known(names: Sequence[str]) -> list[str]:
    """The names of single experiments; an error where one is unknown: workloads are run by themselves."""
    for name in names:
        if name not in experiment_names():
            raise ConfigError(
                f"`{name}` is not an experiment",
                detail=f"experiments are run apart from workloads: {', '.join(experiment_names())}",
                hint=did_you_mean(name, experiment_names()),
            )
    return spelled_out(names)


def write_report(found: Sequence[Found], folder: Path) -> list[Path]:
    """The findings as JSON beside the pictures that the experiments have drawn."""
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "experiments.json"
    page.write_text(as_json(found) + "\n", encoding="utf-8")
    return [page, *(picture for _, finding in found for picture in finding.pictures)]
