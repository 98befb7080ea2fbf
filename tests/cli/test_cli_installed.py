"""Commands that come with other distributions: `penstock bench` is one of them."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest
import typer
from cli_case import penstock

from penstock.cli.installed import ENTRY_POINTS

Install = Callable[..., None]


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Pretend that the distributions of this environment have only these commands."""

    def install(**commands: str) -> None:
        points = [EntryPoint(name, value, ENTRY_POINTS) for name, value in commands.items()]
        monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == ENTRY_POINTS else [])

    return install


@pytest.mark.parametrize("arguments", [(), ("tumble", "--rows", "100", "--json"), ("--help",)])
def test_a_plain_penstock_says_how_to_get_the_benchmark(installed: Install, arguments: tuple[str, ...]) -> None:
    installed()
    result = penstock("bench", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert [line.split(":")[0].strip() for line in result.stderr.splitlines()] == ["error", "detail", "hint"]
    assert "`penstock bench` is not installed" in result.stderr
    assert "pip install penstock-bench" in result.stderr


def test_help_lists_the_commands_that_are_installed(installed: Install) -> None:
    assert "Measure Penstock and its peers" in penstock("--help").stdout
    installed()
    text = penstock("--help").stdout
    assert "Run a query" in text
    assert "bench" not in text


def test_a_misspelled_benchmark_is_suggested() -> None:
    assert "Did you mean 'bench'?" in penstock("benhc").stderr


def test_a_distribution_adds_a_command(installed: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    app = typer.Typer()

    @app.command()
    def hello(times: int) -> None:
        """Greet."""
        print("hello " * times)

    module = ModuleType("greeting")
    vars(module).update(app=app)
    monkeypatch.setitem(sys.modules, "greeting", module)
    installed(hello="greeting:app", run="greeting:app")
    assert penstock("hello", "2").stdout == "hello hello \n"
    assert "Greet." in penstock("--help").stdout
    assert "FILE.sql" in penstock("run", "--help").stdout  # the name of a command of Penstock's own


def test_a_command_that_cannot_be_loaded_is_named_and_stops_no_other(installed: Install) -> None:
    installed(broken="no_such_module:app")
    result = penstock("broken", "--anything")
    assert result.exit_code == 2
    assert "error: `penstock broken` cannot be loaded" in result.stderr
    assert "No module named 'no_such_module'" in result.stderr
    assert penstock("--help").exit_code == 0


def test_commands_of_penstock_do_not_look_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: asked.append(group) or [])
    assert penstock("explain", "missing.sql").exit_code == 1
    assert asked == []
    assert penstock("bench").exit_code == 2
    assert asked == [ENTRY_POINTS]
