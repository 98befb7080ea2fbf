"""Errors that end a command: three parts in plain words on stderr, an exit code, no traceback."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from penstock.errors import PenstockError, PenstockWarning
from penstock.storage.disk_errors import explained, is_lasting

FAILED, USAGE, INTERRUPTED = 1, 2, 130


@contextmanager
def ending_well(as_json: bool = False) -> Iterator[None]:
    """Print the error of a command and turn it into an exit code."""
    try:
        yield
    except PenstockError as error:
        raise _failed(error, as_json) from error
    except OSError as error:
        if not is_lasting(error):
            raise
        raise _failed(explained(error), as_json) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt


def _failed(error: PenstockError, as_json: bool) -> typer.Exit:
    show_error(error)
    if as_json:
        print(error_line(error), flush=True)
    return typer.Exit(FAILED)


def show_error(error: PenstockError) -> None:
    """Print an error on stderr."""
    _show("error: ", "bold red", error)


def show_warnings(warnings: Iterable[PenstockWarning]) -> None:
    """Print the warnings of a script on stderr: things that are allowed but nearly always a mistake."""
    for warning in warnings:
        _show("warning: ", "bold yellow", warning)


def _show(title: str, style: str, problem: PenstockError | PenstockWarning) -> None:
    """Print the parts of an error or a warning on stderr."""
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble((title, style), (problem.what, "bold")))
    if problem.detail:
        console.print(Text.assemble(("  detail: ", "dim"), problem.detail))
    if problem.hint:
        console.print(Text.assemble(("  hint:   ", "green"), problem.hint))


def error_line(error: PenstockError) -> str:
    """Return an error as one line of JSON."""
    parts = {"what": error.what, "detail": error.detail, "hint": error.hint}
    return msgspec.json.encode({"state": "failed", "error": parts}).decode()
