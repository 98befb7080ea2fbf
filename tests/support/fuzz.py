"""Thousands of random trials: `python -m tests.support.fuzz --cases 5000 --seed 1`.

A failing trial is shrunk and printed; `--case 17` runs only that case. Exits with 1 if a trial failed.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from random import Random

from tests.support.late_answer import BY_ROW, BY_WINDOW
from tests.support.trials.shrink import shrunk
from tests.support.trials.text import trial_text
from tests.support.trials.trial import LATE, Trial, difference, random_trial


def report(seed: object, case: int, tries: int) -> str:
    """Run one case and return a report of its failure, shrunk; empty if it passes. Every other case has late rows, with
    the two rules of lateness by turns."""
    lateness = (None, BY_WINDOW, None, BY_ROW)[case % 4]
    try:
        trial = random_trial(Random(f"{seed} {case}"), lateness=lateness)
    except Exception:
        return f"=== seed {seed}, case {case}: no query could be made\n{traceback.format_exc()}"
    return report_of(trial, f"seed {seed}, case {case}", tries)


def report_of(trial: Trial, title: str, tries: int = 400) -> str:
    """Return a report of a failing trial after at most `tries` runs to shrink it; empty if the trial passes."""
    first = difference(trial)
    if not first:
        return ""

    def fails(candidate: Trial) -> bool:
        """Return whether a smaller trial fails in the same way: its rows may really be late, which is not a failure."""
        found = difference(candidate)
        return bool(found) and (LATE in found) == (LATE in first)

    small = shrunk(trial, fails, tries)
    return trial_text(small, title, difference(small))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trials and return the exit code."""
    parser = argparse.ArgumentParser(description="Random queries over random rows, against the batch answer.")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--case", type=int, help="run only this case")
    parser.add_argument("--failures", type=int, default=5, help="stop after so many")
    parser.add_argument("--tries", type=int, default=400, help="how often a failure is run to make it smaller")
    asked = parser.parse_args(arguments)
    failed, began = 0, time.monotonic()
    for case in range(asked.cases) if asked.case is None else [asked.case]:
        if found := report(asked.seed, case, asked.tries):
            failed += 1
            print(found, end="\n\n\n", flush=True)
        if failed >= asked.failures:
            break
        if case % 100 == 99:
            print(f"{case + 1} cases, {failed} failed, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    print(f"{failed} failed", file=sys.stderr)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
