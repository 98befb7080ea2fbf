"""Base classes of operators: defaults for their number of ports and tracks, and for operators that emit whole rows."""

from __future__ import annotations

import pyarrow as pa

from penstock.operators.completed import completed_below
from penstock.operators.protocol import Marks
from penstock.operators.row_layout import RowLayout


class OnePort:
    """Base of operators with one port and one track."""

    @property
    def ports(self) -> int:
        return 1

    @property
    def tracks(self) -> int:
        return 1


class TwoPorts:
    """Base of operators with two ports and one track per port."""

    @property
    def ports(self) -> int:
        return 2

    @property
    def tracks(self) -> int:
        return 2


class WholeRows(OnePort):
    """Base of operators that emit input rows unchanged and drop them once the mark passes their time."""

    time: str
    input_schema: pa.Schema

    @property
    def result_schema(self) -> pa.Schema:
        return self.input_schema

    @property
    def reach(self) -> int:
        return 0

    @property
    def output_times(self) -> tuple[str, ...]:
        return (self.time,)

    def state_schema(self, port: int) -> pa.Schema:
        return self._layout.state_schema

    def expired_below(self, port: int, marks: Marks) -> int:
        return completed_below(marks[0])

    def span(self, port: int) -> int:
        return 1

    def output_marks(self, marks: Marks) -> Marks:
        return marks

    @property
    def _layout(self) -> RowLayout:
        return RowLayout(self.input_schema, self.time)
