"""`penstock bench` with the names of experiments."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from penstock.bench.also.experiment import Setting
from penstock.bench.also.report import Found, as_json, as_tables
from penstock.bench.experiments import EXPERIMENTS, experiment_names, spelled_out
from penstock.cli.bench import console_of_width
from penstock.cli.errors_shown import FAILED
from penstock.errors import ConfigError, did_you_mean


def run_experiments(
    names: Sequence[str], repeat: int, work: Path, json: bool, report: Path | None, quick: bool = False
) -> int:
    """The exit code is not 0 where a result is wrong or a bar is missed. What was only tried quickly has no bars."""
    tell = partial(print, file=sys.stderr, flush=True)
    setting = Setting(repeat, work, quick, report, tell=tell)
    found = [(EXPERIMENTS[name], EXPERIMENTS[name].measure(setting)) for name in known(names)]
    if json:
        print(as_json(found))
    else:
        console_of_width().print(as_tables(found))
    if report is not None:
        tell(f"report: {', '.join(map(str, write_report(found, report)))}")
    return 0 if all(finding.equal if quick else finding.holds for _, finding in found) else FAILED


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
