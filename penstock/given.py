"""Settings given outside a query: penstock.toml in the current folder, and the variables PENSTOCK_NAME.

The order is: the defaults, penstock.toml, the environment, the query itself (`SET` in a script, keywords of `start`),
options of the command line. Each overrides those before it.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penstock.declared import Setting, declared
from penstock.errors import ConfigError
from penstock.option_text import read_settings
from penstock.settings import Settings, setting_names, unknown_setting
from penstock.units import size, span

SETTINGS_FILE = Path("penstock.toml")
PREFIX = "PENSTOCK_"
_ALIKE = 0.8  # of 1; a variable this close to that of a setting is misspelt, others belong to other programs


def given_settings() -> dict[str, Any]:
    """Return the settings of penstock.toml and of the environment, by name."""
    return layered(_of_file(SETTINGS_FILE), _of_environment(os.environ))


def layered(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of all layers; those of a later one override. A length may be written under two names."""
    other = {one.name: one.field for one in declared(Settings) if one.name != one.field}
    other |= {field: name for name, field in other.items()}
    merged: dict[str, Any] = {}
    for layer in layers:
        merged = {name: value for name, value in merged.items() if other.get(name) not in layer} | dict(layer)
    return merged


def given_master() -> str | None:
    """Return the master that penstock.toml or the environment names; None if neither does."""
    return given_settings().get("master")


def default_master() -> str:
    """Return the master of a query that names none."""
    return given_master() or Settings().master


def _of_file(path: Path) -> dict[str, Any]:
    """Return the settings in a TOML file; none if there is no such file."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        hint = 'write settings as in: sites = 3, or epoch = "2s"'
        raise ConfigError(f"cannot read {path.absolute()}", detail=str(error), hint=hint) from error
    for name, value in found.items():
        _check(name, value, f"`{name}` in {path.absolute()}")
    return found


def _check(name: str, value: object, where: str) -> None:
    """Raise ConfigError, naming where it is written, for an unknown setting or a value that it cannot have."""
    known = {one.name: one for one in declared(Settings)}
    if name not in known:
        raise unknown_setting(name, where)
    with _naming(where):
        known[name].check(_held(known[name], value))


@contextmanager
def _naming(where: str) -> Iterator[None]:
    """Add to the detail of a ConfigError where the setting is written."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(error.what, detail="; ".join(filter(None, (where, error.detail))), hint=error.hint) from error


def _held(one: Setting, value: object) -> object:
    """Return the value that the field of a setting holds. A length has a unit, so it is a text."""
    if one.kind is float and not isinstance(value, str):
        raise ConfigError(f"the setting `{one.name}` cannot be {value!r}", hint=f"give it {one.wanted}")
    if one.kind is float:
        return span(str(value)) / 1e6
    if one.is_size and isinstance(value, str):
        return size(value)
    return span(value) if one.name == "max_lead" and isinstance(value, str) else value


def _of_environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the settings from environment variables; ignore empty ones."""
    by_variable = {PREFIX + name.upper(): name for name in setting_names()}
    texts: dict[str, str] = {}
    for variable, text in variables.items():
        if variable in by_variable and text:
            texts[by_variable[variable]] = text
        elif variable.startswith(PREFIX) and variable not in by_variable:
            _refuse_misspelt(variable, list(by_variable))
    return {name: _read(name, text) for name, text in texts.items()}


def _refuse_misspelt(variable: str, known: list[str]) -> None:
    """Raise ConfigError if a variable is almost that of a setting."""
    near = difflib.get_close_matches(variable.removeprefix(PREFIX), [v.removeprefix(PREFIX) for v in known], 1, _ALIKE)
    if near:
        raise ConfigError(
            f"no setting has the environment variable {variable}",
            detail="a variable is named after its setting, in capital letters",
            hint=f"did you mean {PREFIX}{near[0]}?",
        )


def _read(name: str, text: str) -> Any:
    where = f"the environment variable {PREFIX}{name.upper()} is {text!r}"
    with _naming(where):
        value = read_settings({name: text})[name]
    _check(name, value, where)
    return value
