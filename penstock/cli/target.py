"""Targets of `penstock run` and `explain`: a SQL script, or a stream of a Python module."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import quote

from penstock.api.script import NamedQuery, read_script
from penstock.api.streams import Stream
from penstock.api.write import Ready
from penstock.cli.which_checkpoint import DEFAULT_CHECKPOINTS
from penstock.errors import ConfigError, PenstockError, PenstockWarning, did_you_mean
from penstock.paths import local_path
from penstock.user_code import describe_error, failing_line

_HOW = "name a script, as in busy.sql, or a stream of a module, as in busy:calls; or give the SQL itself, with -c"
STDIN = "-"
_MODULE = "penstock"
_STARTS_STREAM = {"read", "join_all"}  # names of the package that return a stream
_ENDS_STREAM = {"start", "wait", "explain", "schema", "times"}  # methods of a stream that return something else


@dataclass(frozen=True)
class Job:
    """One query of a target with its checkpoint; None: a temporary one, deleted with the process."""

    name: str
    ready: Ready
    checkpoint: Path | None


@dataclass(frozen=True)
class Target:
    """The queries and settings of a script or a module. The names of its checkpoints begin with `stem`."""

    stem: str
    queries: tuple[NamedQuery, ...]
    settings: Mapping[str, Any]
    warnings: tuple[PenstockWarning, ...] = ()

    def jobs(self, checkpoint: Path | None) -> tuple[Job, ...]:
        """Return a job for each query; `checkpoint` is the folder given on the command line."""
        return tuple(Job(q.name, q.ready, self._checkpoint(q, checkpoint)) for q in self.queries)

    def _checkpoint(self, query: NamedQuery, given: Path | None) -> Path | None:
        """Return the checkpoint that the query continues from. An ad-hoc query has none, unless a folder is given."""
        name = as_file_name(query.name)
        if given is not None:
            return given if len(self.queries) == 1 else given / name
        return None if query.adhoc else DEFAULT_CHECKPOINTS / f"{self.stem}-{name}"


def as_file_name(name: str) -> str:
    """Quote a name for use as a file name: characters that could lead out of a folder are written as %XX."""
    quoted = quote(name, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def load_command(text: str) -> Target:
    """Load the queries of SQL given on the command line."""
    return _queries(text, "-c", "command")


def load_target(text: str) -> Target:
    """Load the queries of a script, of stdin (`-`), or of a Python module."""
    if text == STDIN:
        return _queries(sys.stdin.read(), "stdin", "stdin")
    path = Path(local_path(text, "a script"))
    if path.suffix.lower() == ".py":
        raise _not_a_script(path)
    if path.suffix.lower() == ".sql" or path.is_file():
        return _script(path)
    module, separator, name = text.partition(":")
    if separator and module and name:
        return _python(module, name)
    raise ConfigError(
        f"`{text}` is neither a script nor a stream", detail="it is not a file, and names no stream", hint=_HOW
    )


def _script(path: Path) -> Target:
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        detail = f"its byte {error.start + 1} is not UTF-8"
        raise ConfigError(f"cannot read the script {path}", detail=detail, hint="save it as UTF-8") from error
    except OSError as error:
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else str(error)
        raise ConfigError(f"cannot read the script {path}", detail=reason, hint=_near(path)) from error
    return _queries(text, str(path), path.stem)


def _queries(text: str, name: str, stem: str) -> Target:
    script = read_script(text, name)
    return Target(stem, script.queries, script.settings, script.warnings)


def _not_a_script(path: Path) -> ConfigError:
    module = path.with_suffix("").name
    streams = streams_in(path) if path.is_file() else []
    found = f"streams in it: {', '.join(streams)}" if streams else "no stream is assigned to a name in it"
    return ConfigError(
        f"`{path}` is a Python module, not a SQL script",
        detail=found if path.is_file() else "there is no such file",
        hint=f"run a stream of it by its name: penstock run {module}:{streams[0] if streams else 'stream'}"
        + ("" if path.parent == Path() else f", in the folder {path.parent}"),
    )


def _near(path: Path) -> str:
    """Return a hint that names similar scripts in the same folder."""
    there = [str(p) for p in sorted(path.parent.glob("*.sql"))] if path.parent.is_dir() else []
    return did_you_mean(str(path), there) if there else _HOW


def _python(module_name: str, name: str) -> Target:
    """Load a stream of a Python module; a stream without a sink prints to the terminal."""
    found = getattr(imported(module_name), name, None)
    match found:
        case Ready():
            ready = found
        case Stream():
            ready = found.to.terminal()
        case _:
            raise _no_stream(module_name, name, found)
    return Target(module_name, (NamedQuery(name, ready),), {})


def imported(name: str) -> ModuleType:
    """Import a module; the current folder is searched first."""
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        return importlib.import_module(name)
    except PenstockError as error:
        raise _at_line(error) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        hint = f"run from the folder that holds {name.replace('.', '/')}.py, or install the package it is in"
        raise ConfigError(f"there is no module `{name}`", detail=f"looked for in {Path.cwd()}", hint=hint) from error
    except Exception as error:  # user code may raise anything; the message shows it
        raise _broken(name, error) from error


def _at_line(error: PenstockError) -> PenstockError:
    """Add the line of the user's module that caused the error to its detail."""
    detail = "; ".join(filter(None, [failing_line(error), error.detail]))
    return type(error)(error.what, detail=detail, hint=error.hint)


def _broken(name: str, error: Exception) -> ConfigError:
    return ConfigError(
        f"the module `{name}` fails while it is imported",
        detail=describe_error(error),
        hint=f"fix it until `python -c 'import {name}'` succeeds",
    )


def _no_stream(module_name: str, name: str, found: object) -> ConfigError:
    streams = [n for n, value in vars(imported(module_name)).items() if isinstance(value, Ready | Stream)]
    detail = "it is not there" if found is None else f"it is a {type(found).__name__}"
    hint = did_you_mean(name, streams) or "assign a stream to a name of the module, as in busy = ps.read.files(...)"
    return ConfigError(f"`{name}` is not a stream of module `{module_name}`", detail=detail, hint=hint)


def streams_in(path: Path) -> list[str]:
    """Return the names that a module assigns streams to, in order; empty if the module cannot be parsed."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []
    packages = {alias.asname or _MODULE for node in ast.walk(tree) for alias in _aliases(node)}
    found: list[str] = []
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=targets, value=value) if _is_stream(value, packages, found):
                found += [name for target in targets for name in _names(target) if name not in found]
    return found


def _aliases(node: ast.AST) -> list[ast.alias]:
    return [alias for alias in node.names if alias.name == _MODULE] if isinstance(node, ast.Import) else []


def _is_stream(value: ast.expr, packages: set[str], streams: list[str]) -> bool:
    """Return whether an expression evaluates to a stream, by the name it starts with and the attributes it uses."""
    root, path = _chain(value)
    if not path or _ENDS_STREAM & set(path):
        return False
    return root in streams or (root in packages and path[0] in _STARTS_STREAM)


def _chain(value: ast.expr) -> tuple[str, list[str]]:
    """Return the name that an expression starts with and the attributes that follow: `ps.read.files(...).where(...)`
    gives `ps` and `read`, `files`, `where`."""
    path: list[str] = []
    while True:
        match value:
            case ast.Call(func=below) | ast.Subscript(value=below):
                value = below
            case ast.Attribute(value=below, attr=name):
                path.insert(0, name)
                value = below
            case ast.Name(id=root):
                return root, path
            case _:
                return "", []


def _names(target: ast.expr) -> list[str]:
    """Return the names that an assignment target binds."""
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [name for part in parts for name in _names(part)]
    return []
