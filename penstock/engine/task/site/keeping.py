"""State rows that work items keep, until the end of a step or until they take too much memory."""

from __future__ import annotations

import pyarrow as pa

from penstock.engine.task.site.storing import Storage
from penstock.operators.protocol import Operator
from penstock.state.runs import Slice


class Kept:
    """The state rows to keep from the items of a step.

    Invariant: those of a port are in the tables `rows[port]` and in the slices `written[port]`, each row in one of
    them. The tables of a port have no more bytes than the budget has for arrivals.
    """

    def __init__(self, operator: Operator, storage: Storage) -> None:
        self._operator, self._storage = operator, storage
        self.rows: list[list[pa.Table]] = [[] for _ in range(operator.ports)]
        self.written: list[list[Slice]] = [[] for _ in range(operator.ports)]
        self._bytes = [0] * operator.ports

    def add(self, port: int, rows: pa.Table) -> None:
        """Keep some rows, or write all that are kept if they take too much memory."""
        self.rows[port].append(rows)
        self._bytes[port] += rows.nbytes
        if self._bytes[port] > self._storage.budget.arrivals:
            self.written[port] += self._storage.write(port, self._operator.combine(port, self.rows[port]))
            self.rows[port], self._bytes[port] = [], 0
