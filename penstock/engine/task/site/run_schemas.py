"""The columns that the runs of a site must have, by the query: those of state rows, or of rows as they travelled."""

from __future__ import annotations

import pyarrow as pa

from penstock.checkpoint.manifest import SiteState
from penstock.engine.task.exchange.branches import travelling
from penstock.engine.task.exchange.steps import run_steps
from penstock.plan.program import ROW_NUMBER, Feed, Program, Subquery
from penstock.state.runs import Run


class RunSchemas:
    """Those of the runs that a site begins an epoch with. What held rows look like is found out when the first of them
    are read: no rows at all go the way that they went."""

    def __init__(self, program: Program, subquery: Subquery, state: SiteState) -> None:
        self._program, self._subquery = program, subquery
        self._state_runs = {piece.run.name for piece in (*state.slices, *state.pending)}
        self._held_runs = {piece.run.name for piece in state.held}
        self._travelled: dict[int, pa.Schema] = {}  # by port

    def of(self, run: Run) -> pa.Schema | None:
        """Return the schema of a run; None where it is not one of them."""
        if run.name in self._state_runs:
            return self._subquery.operator.state_schema(run.port)
        if run.name not in self._held_runs:
            return None
        if run.port not in self._travelled:
            self._travelled[run.port] = travelled_schema(self._program, self._subquery, run.port)
        return self._travelled[run.port]


def travelled_schema(program: Program, subquery: Subquery, port: int) -> pa.Schema:
    """Return the schema of rows on their way to a port; all branches that lead there agree on it."""
    feed = next(feed for feed in program.feeds(subquery.number) if feed.branch.port == port)
    rows = run_steps(_produced(program, feed).empty_table(), feed.branch.steps)
    return travelling(subquery, port, rows, None).schema


def _produced(program: Program, feed: Feed) -> pa.Schema:
    """What a producer gives to its branches."""
    if not feed.is_input:
        return program.subqueries[feed.producer].operator.result_schema
    source = program.inputs[feed.producer]
    schema = pa.schema([source.schema.field(name) for name in source.columns])
    return schema.append(pa.field(ROW_NUMBER, pa.int64())) if source.numbered else schema
