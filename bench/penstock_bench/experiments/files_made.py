"""Parquet files of scripted rows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from penstock_bench.experiments.scripted import Step


def write_files(folder: Path, steps: Iterable[Step]) -> list[Path]:
    """One file for each step, named so that their order is that of the steps; `folder` is made."""
    folder.mkdir(parents=True)
    return [_written(folder / f"{number:06d}.parquet", step) for number, step in enumerate(steps)]


def _written(path: Path, step: Step) -> Path:
    pq.write_table(step.table(), path, row_group_size=100_000)
    return path
