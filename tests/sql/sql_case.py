"""What the tests of the SQL front end share: a source, connectors that connect to nothing, and short ways to parse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import PenstockError, QueryError, SourceError
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, Node, Project, Source
from penstock.progress.mark import Slack
from penstock.sql import Script, parse_script

SECOND, MINUTE = 1_000_000, 60_000_000

DECLARED = """CREATE SOURCE calls (caller BIGINT, callee BIGINT, district INT, duration DOUBLE, tag VARCHAR,
  ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (connector = 'files', path = 'calls/*.parquet');
CREATE SOURCE ticks (n BIGINT, v DOUBLE, WATERMARK FOR n AS n - 5) WITH (connector = 'files', path = 'ticks');
"""


@dataclass(frozen=True)
class FakeConnector:
    kind: str
    options: tuple[tuple[str, str], ...]

    @property
    def bounded(self) -> bool:
        return dict(self.options).get("follow") != "true"

    def identity(self) -> dict[str, Any]:
        return {"kind": self.kind, **dict(self.options)}

    def discover(self) -> pa.Schema:
        return pa.schema([("k", pa.uint32()), ("ts", pa.timestamp("ns"))])


@dataclass(frozen=True)
class FakeConnectors:
    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> FakeConnector:
        if kind == "broken":
            raise SourceError("there is no such file", hint="look elsewhere")
        return FakeConnector(kind, tuple(options.items()))

    def sink(self, kind: str, options: dict[str, str]) -> FakeConnector:
        return FakeConnector(kind, tuple(options.items()))


CALLS = Source(
    "calls",
    pa.schema(
        [
            ("caller", pa.int64()),
            ("callee", pa.int64()),
            ("district", pa.int32()),
            ("duration", pa.float64()),
            ("tag", pa.string()),
            ("ts", pa.timestamp("us")),
        ]
    ),
    "ts",
    Slack(2 * SECOND),
    FakeConnector("files", (("path", "calls/*.parquet"),)),
)
HOP = Window("ts", MINUTE, 10 * SECOND)
TUMBLE = Window("ts", MINUTE, MINUTE)


def parse(text: str) -> Script:
    """The script alone, without the sources above."""
    return parse_script(text, connectors=FakeConnectors())


def plan(query: str) -> Node:
    """The plan of the last query of a script that follows the declarations above."""
    return parse(DECLARED + query).queries[-1][1]


def aggregate(query: str) -> Aggregate:
    """The Aggregate of a grouped query without HAVING."""
    project = plan(query)
    assert isinstance(project, Project)
    assert isinstance(project.input, Aggregate)
    return project.input


def error(query: str) -> PenstockError:
    """The error of a query that follows the declarations above."""
    return script_error(DECLARED + query)


def script_error(text: str) -> PenstockError:
    with pytest.raises(QueryError) as raised:
        parse(text)
    return raised.value


def pointed_at(raised: PenstockError) -> str:
    """The text that starts at the caret."""
    *_, line, caret = raised.detail.split("\n")
    return line[caret.index("^") :]
