"""What the tests of the command line share: a folder to run in, scripts, and a way to call a command."""

from __future__ import annotations

from typing import Any

import msgspec
from typer.testing import CliRunner, Result

from penstock.cli.main import app

CALLS = """CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (
  connector = 'calls', rows = {rows}, rate = 1000, districts = 4, disorder = '{disorder}'{more});
"""
COUNT = "SELECT district, window_start, count(*) AS n FROM TUMBLE(calls, ts, INTERVAL '1' SECOND) GROUP BY 1, 2"


def calls(rows: int = 5000, disorder: str = "2s", more: str = "") -> str:
    return CALLS.format(rows=rows, disorder=disorder, more=more)


def to_files(name: str = "busy", path: str = "out", query: str = COUNT) -> str:
    return f"CREATE SINK {name} WITH (connector = 'files', path = '{path}') AS {query};\n"


def penstock(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def run(*arguments: str) -> Result:
    return penstock("run", *arguments, "--master", "inline", "--epoch", "10ms")


def last_json(result: Result) -> dict[str, Any]:
    """The last line of stdout, which must be the only one that is JSON."""
    lines = result.stdout.splitlines()
    assert [line for line in lines if line.startswith("{")] == lines[-1:]
    found: dict[str, Any] = msgspec.json.decode(lines[-1])
    return found
