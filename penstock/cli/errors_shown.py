"""How errors end a command: three parts in plain words on stderr, an exit code, no traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from penstock.errors import PenstockError

FAILED, INTERRUPTED = 1, 130


@contextmanager
def ending_well(as_json: bool = False) -> Iterator[None]:
    """Turns the errors of a command into words and exit codes."""
    try:
        yield
    except PenstockError as error:
        show_error(error)
        if as_json:
            print(error_line(error), flush=True)
        raise typer.Exit(FAILED) from error
    except KeyboardInterrupt as interrupt:
        raise typer.Exit(INTERRUPTED) from interrupt


def show_error(error: PenstockError) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error: ", "bold red"), (error.what, "bold")))
    if error.detail:
        console.print(Text.assemble(("  detail: ", "dim"), error.detail))
    if error.hint:
        console.print(Text.assemble(("  hint:   ", "green"), error.hint))


def error_line(error: PenstockError) -> str:
    parts = {"what": error.what, "detail": error.detail, "hint": error.hint}
    return msgspec.json.encode({"state": "failed", "error": parts}).decode()
