"""`penstock run`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.api.launch import INLINE, default_master
from penstock.cli.progress_line import Screen, screen_for_stderr
from penstock.cli.running import run_jobs
from penstock.cli.summary import json_line, summary_lines
from penstock.cli.target import load_target


def run_target(text: str, checkpoint: Path | None, flags: Mapping[str, Any], as_json: bool) -> int:
    """Runs all queries of a target; the exit code. Flags are stronger than the settings of a script."""
    target = load_target(text)
    options = {**target.settings, **flags}
    screen = screen_for_stderr()
    _say_start(screen, options)
    ended, code = run_jobs(target.jobs(checkpoint), options, screen)
    for one in ended:
        for line in summary_lines(one, len(ended) > 1, "the same command goes on from here"):
            print(line, file=sys.stderr, flush=True)
    if as_json:
        print(json_line(ended), flush=True)
    return code


def _say_start(screen: Screen, options: Mapping[str, Any]) -> None:
    """Starting Spark takes seconds, so that it is said."""
    master = options.get("master", default_master())
    if master != INLINE:
        screen.say(f"starting Spark ({master})")
