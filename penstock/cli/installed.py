"""Commands of other distributions: entry points of the group `penstock.commands`, each a Typer app.

Entry points are looked up only for the list of commands and for a name that is not built in, because the lookup takes
longer than the start of a command.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from penstock.cli.errors_shown import USAGE, show_error
from penstock.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "penstock.commands"
DISTRIBUTIONS = {"bench": "penstock-bench"}  # known commands, and the distribution that provides each
_ANYTHING = {"allow_extra_args": True, "ignore_unknown_options": True}

Command = Any  # a Click command; some versions of Typer bundle Click under another name


class ExtensibleGroup(TyperGroup):
    """The built-in commands, followed by those of other distributions."""

    def list_commands(self, ctx: Any) -> list[str]:
        self._add_installed()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Command:
        if cmd_name not in self.commands:
            self._add_installed()
        return super().get_command(ctx, cmd_name)

    def _add_installed(self) -> None:
        for name, command in installed_commands().items():
            self.commands.setdefault(name, command)


def installed_commands() -> dict[str, Command]:
    """Return the commands of other distributions by name; a known one that is not installed fails and says how to get
    it."""
    from importlib.metadata import entry_points

    found = {name: _failing(name, not_installed(name), hidden=True) for name in DISTRIBUTIONS}
    return found | {point.name: _loaded(point) for point in entry_points(group=ENTRY_POINTS)}


def not_installed(name: str) -> ConfigError:
    """Return the error of a command whose distribution is missing."""
    distribution = DISTRIBUTIONS[name]
    return ConfigError(
        f"`penstock {name}` is not installed",
        detail=f"it comes with {distribution}, a separate distribution",
        hint=f"pip install {distribution}, or make setup in a checkout of Penstock",
    )


def _loaded(point: EntryPoint) -> Command:
    """Return the command of an entry point. If it cannot be imported, return a command that says so, so that other
    commands still run."""
    try:
        return get_command(point.load())
    except Exception as error:
        source = point.dist.name if point.dist else point.value
        return _failing(
            point.name,
            ConfigError(
                f"`penstock {point.name}` cannot be loaded",
                detail=f"{point.value} of {source}: {error}",
                hint=f"reinstall {source}, or uninstall it",
            ),
        )


def _failing(name: str, error: ConfigError, hidden: bool = False) -> Command:
    """Return a command that fails with the error, whatever its arguments are."""
    app = typer.Typer()

    @app.command(name, hidden=hidden, add_help_option=False, context_settings=_ANYTHING, help=error.what)
    def fail() -> None:
        show_error(error)
        raise typer.Exit(USAGE)

    return get_command(app)
