"""An option of the command line for every setting: `--on-bad-row divert` is the setting `on_bad_row`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from penstock.declared import Setting, declared
from penstock.settings import Settings

FLAGS = "flags"  # the argument of a command that takes the settings


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
