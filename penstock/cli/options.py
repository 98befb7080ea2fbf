"""Options that several commands share: one for every setting (`--on-bad-row divert` is the setting `on_bad_row`), and
those of the log, with a log of the command itself."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from penstock.declared import Setting, declared
from penstock.errors import PenstockError
from penstock.observe.log import SHOWN, LogFormat, LogLevel, LogOptions, logging_to
from penstock.settings import Settings
from penstock.version import __version__

_log = logging.getLogger("penstock.cli")
_PANEL = "Logging"
FLAGS = "flags"  # the argument of a command that takes the settings


def _log_option(name: str, text: str, **more: Any) -> Any:
    """Return the option `--log-NAME`, which is also the environment variable PENSTOCK_LOG_NAME."""
    variable = f"PENSTOCK_LOG_{name.upper()}"
    return typer.Option(f"--log-{name}", envvar=variable, help=text, rich_help_panel=_PANEL, show_default=False, **more)


LevelOption = Annotated[
    LogLevel | None,
    _log_option("level", "Log lines of this level and above: info unless given.", case_sensitive=False),
]
FileOption = Annotated[
    Path | None,
    _log_option("file", "Append the log to this file instead of writing it to stderr.", metavar="PATH"),
]
FormatOption = Annotated[
    LogFormat | None, _log_option("format", "Lines of text, or one JSON object per line.", case_sensitive=False)
]


@contextmanager
def logged(command: str, options: LogOptions) -> Iterator[None]:
    """Log a command: its start, and the error that ends it."""
    with logging_to(options):
        _log.info("penstock %s: %s", __version__, command)
        try:
            yield
        except PenstockError as error:
            _log.error("%s failed: %s", command, error.what, extra=_parts(error))
            raise
        except OSError as error:
            _log.error("%s failed: %s", command, error, extra={"reason": str(error), SHOWN: True})
            raise


def _parts(error: PenstockError) -> dict[str, object]:
    return {"reason": error.detail or error.what, "hint": error.hint, SHOWN: True}


def setting_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add an option for every setting that `command` does not declare itself; it gets them as text in `flags`."""
    own = {name: p for name, p in inspect.signature(command, eval_str=True).parameters.items() if name != FLAGS}
    others = [one for one in declared(Settings) if one.name not in own]

    @functools.wraps(command)
    def called(**given: Any) -> None:
        texts = {one.name: given.pop(one.name) for one in others}
        command(**given, **{FLAGS: {name: text for name, text in texts.items() if text is not None}})

    parameters = [*own.values(), *map(_parameter, others)]
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by Typer
    return called


def _parameter(one: Setting) -> inspect.Parameter:
    option = typer.Option(
        "--" + one.name.replace("_", "-"), help=one.doc, rich_help_panel="Settings", show_default=False
    )
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(one.name, kind, default=None, annotation=Annotated[str | None, option])
