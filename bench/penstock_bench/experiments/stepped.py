"""A query whose epochs are run one by one, by hand, as `start` would run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.api.launch import executor_for, settings_from
from penstock.api.write import Ready
from penstock.checkpoint.store import Checkpoint
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.recovery import recover
from penstock.events import Event
from penstock.plan.compile.subqueries import compile_query
from penstock.plan.options import CompileOptions


@contextmanager
def stepped(
    ready: Ready, checkpoint: Path, tell: Callable[[Event], None] = lambda event: None, **options: Any
) -> Iterator[EpochLoop]:
    """The loop of the query, on the executor that its settings ask for; call `step`."""
    settings = settings_from(options)
    query = compile_query(ready.sink, CompileOptions.of(settings))
    store = Checkpoint.open(checkpoint)
    executor = None
    try:
        executor = executor_for(settings)
        yield EpochLoop(recover(query, store, settings, tell), executor, tell)
    finally:
        if executor is not None:
            executor.close()
        store.close()


def stored_rows(loop: EpochLoop) -> int:
    """How many rows of state the newest manifest names, in all subqueries; a slice counts as its whole run."""
    runs = {p.run for subquery in loop.manifest.subqueries for site in subquery.sites for p in site.slices}
    return sum(run.rows for run in runs)
