"""Writes docs/reference.md from the code: run it with `make docs`.

Names, signatures, descriptions, defaults, options and functions are read from the package itself; the statements of SQL
are those of statements.sql, and one that can no longer be read stops the tool.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import typer.main
from reference_settings import settings_section
from reference_tables import cell, escaped, table, type_name

import penstock as ps
from penstock import errors, events
from penstock.api import aggregates, columns, policies, read, streams, write
from penstock.api.script import read_script
from penstock.balance import decisions
from penstock.cli.main import app
from penstock.connectors.files.source import EXTENSIONS, FilesConnector
from penstock.connectors.generator.calls import CallsConnector
from penstock.connectors.generator.joinable import JoinableConnector
from penstock.connectors.sinks.files import FilesSink
from penstock.connectors.sinks.terminal import TerminalSink
from penstock.expr.functions import ALIASES, FUNCTIONS, REFUSED, Function
from penstock.sql.names.aggregate_names import AGGREGATE_NAMES
from penstock.sql.parse.refusals import _CLAUSES, _NO_SET_OPERATION
from penstock.type_names import SQL_TYPES

TARGET = Path(__file__).parents[1] / "docs" / "reference.md"

STATEMENTS = Path(__file__).with_name("statements.sql")


def render() -> str:
    parts = [
        _head(),
        _python(),
        _command_line(),
        settings_section(),
        _sql(),
        _connectors(),
        _functions(),
        _aggregates(),
    ]
    return "\n\n".join([*parts, _events_and_errors()]) + "\n"


def _head() -> str:
    return (
        "# Reference\n\nMade from the code by `tools/reference.py`: do not edit, run `make docs`.\n\n"
        "[Python](#python) · [Command line](#command-line) · [Settings](#settings) · [SQL](#sql) · "
        "[Connectors](#connectors) · [Functions](#functions) · [Aggregates](#aggregates) · "
        "[Events and errors](#events-and-errors)"
    )


# -- Python ----------------------------------------------------------------------------------------------------------


def _python() -> str:
    public = [getattr(ps, name) for name in ps.__all__]
    functions = [value for value in public if inspect.isfunction(value)]
    readers = [value for _, value in inspect.getmembers(read, inspect.isfunction) if _is_own(value, read)]
    classes = (streams.Stream, streams.Grouped, streams.Windowed, write.Destinations, write.Ready, ps.Run)
    sections = [
        "## Python\n\n`import penstock as ps`",
        _entries("Sources", "ps.read.", readers),
        _entries("Joins, windows, progress, expressions, aggregates", "ps.", functions),
        *(_class(found) for found in (*classes, ps.Progress)),
        _class(columns.ColumnExpr),
        _policies(),
    ]
    return "\n\n".join(sections)


def _policies() -> str:
    lines = [f"### Policies\n\n{_description(policies)}\n"]
    for name in policies.__all__:
        found = getattr(policies, name)
        shown = _signature(found) if found.__module__ == decisions.__name__ else ""
        lines.append(f"- `ps.policies.{name}{shown}`  \n  {_description(found)}")
    return "\n".join(lines)


def _is_own(value: Any, module: Any) -> bool:
    return bool(value.__module__ == module.__name__ and not value.__name__.startswith("_"))


def _entries(title: str, prefix: str, functions: Iterable[Callable[..., Any]]) -> str:
    lines = [f"### {title}\n"]
    lines += [f"- `{prefix}{f.__name__}{_signature(f)}`  \n  {_description(f)}" for f in functions]
    return "\n".join(lines)


def _class(found: type) -> str:
    operators = sorted(name for name in vars(found) if name.startswith("__") and name in _OPERATORS)
    lines = [f"### {found.__name__}\n", _description(found), ""]
    if "__add__" in operators:
        lines += [f"Operators: {', '.join(f'`{_OPERATORS[name]}`' for name in operators)}.", ""]
    lines += list(_members(found))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip()


_OPERATORS = {
    "__add__": "+", "__sub__": "-", "__mul__": "*", "__truediv__": "/", "__floordiv__": "//", "__mod__": "%",
    "__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">", "__ge__": ">=", "__and__": "&",
    "__or__": "|", "__invert__": "~",
}  # fmt: skip


def _members(found: type) -> Iterator[str]:
    if found is ps.Progress:
        yield from (f"- `.{f.name}`: {type_name(f.type)}" for f in fields(ps.Progress) if f.repr)
    for name, value in vars(found).items():
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield _member(f".{name}: {type_name(inspect.signature(value.fget).return_annotation)}", value)  # type: ignore[arg-type]
        elif inspect.isfunction(value) and found is not ps.Progress:
            yield _member(f".{name}{_signature(value)}", value)


def _member(shown: str, value: Any) -> str:
    text = _description(value)
    return f"- `{shown}`" + (f"  \n  {text}" if text else "")


def _signature(function: Callable[..., Any]) -> str:
    found = inspect.signature(function)
    kept = [p for name, p in found.parameters.items() if name != "self"]
    shown = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(found.replace(parameters=kept)))
    return re.sub(r"str \| Usual \| None = <[^>]*>", "str | None = the usual", shown)


def _description(value: Any) -> str:
    """The whole docstring as one paragraph; a dataclass without one of its own has none."""
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value) and is_dataclass(value) and text.startswith(f"{value.__name__}("):
        return ""
    return " ".join(text.split())


# -- the command line ------------------------------------------------------------------------------------------------


def _command_line() -> str:
    group = typing.cast(Any, typer.main.get_command(app))
    sections = [f"## Command line\n\n{group.help}"]
    context = typer.Context(group)
    commands = {name: group.get_command(context, name) for name in group.list_commands(context)}
    sections += [_command(name, command) for name, command in sorted(commands.items())]
    return "\n\n".join(sections)


def _command(name: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join(["penstock", name, "[OPTIONS]", *(str(a.metavar or a.name) for a in arguments)])
    rows = [(_flag(p), _default(p), getattr(p, "help", "") or "") for p in command.params]
    return f"### penstock {name}\n\n{command.help}\n\n`{usage}`\n\n" + table(("option", "default", ""), rows)


def _flag(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{escaped(parameter.metavar or parameter.name)}`"
    return f"`{', '.join(parameter.opts)}`"


def _default(parameter: Any) -> str:
    value = parameter.default
    return f"`{value}`" if isinstance(value, int | str | Path) and not isinstance(value, bool) else ""


# -- SQL -------------------------------------------------------------------------------------------------------------


def _sql() -> str:
    script_text = STATEMENTS.read_text()
    read_script(script_text, STATEMENTS.name)  # an example that cannot be read stops here
    sections = ["## SQL\n\nStatements are separated by `;`. The case of keywords and names does not matter."]
    for example in script_text.strip().split("\n\n"):
        lines = example.split("\n")
        meaning = " ".join(line.removeprefix("-- ") for line in lines if line.startswith("-- "))
        statement = "\n".join(line for line in lines if not line.startswith("-- "))
        sections.append(f"{meaning}\n\n```sql\n{statement}\n```")
    types = ", ".join(f"`{name}`" for name in [*SQL_TYPES, "DECIMAL(p, s)"])
    refused = "; ".join(what for what, *_ in [*_CLAUSES.values(), *_NO_SET_OPERATION.values()])
    return "\n\n".join([*sections, f"Types: {types}.", f"What is not there: {refused}."])


# -- connectors ------------------------------------------------------------------------------------------------------


def _connectors() -> str:
    return "\n\n".join(
        [
            "## Connectors\n\nOptions of `WITH (...)`, and of the functions of `ps.read` that have the same names. "
            "In SQL a span is written as `'2s'` and a point in time as `'2024-01-31 12:00:00'` (UTC). Every source "
            "also takes `idle`, a span: others do not wait for it, or a substream of it, after so long without rows; "
            "and `idle_advances`: while it is idle, system time carries its mark on (its time must be a TIMESTAMP). "
            "Every sink also takes `in_order`: rows come in order of time; and `in_order_by`, columns with commas "
            "between them: rows with equal values of these do.",
            f"### Source `files`\n\n{_description(FilesConnector)} {_module(FilesConnector)}",
            _options(FilesConnector, [f.name for f in fields(FilesConnector)]),
            "Formats by extension: " + ", ".join(f"`{e}` {f}" for e, f in EXTENSIONS.items()) + ".",
            f"### Source `calls`\n\n{_description(CallsConnector)}",
            _options(CallsConnector, [f.name for f in fields(CallsConnector)]),
            f"### Source `joinable`\n\n{_description(JoinableConnector)}",
            _options(JoinableConnector, [f.name for f in fields(JoinableConnector)]),
            f"### Sink `files`\n\n{_module(FilesSink)} {_description(FilesSink)}",
            _options(FilesSink, ["path"]),
            f"### Sink `terminal`\n\n{_description(TerminalSink)}",
            _options(TerminalSink, ["rows"]),
            "Python also has `ps.read.table`, `.batches` and `.spark`, and `.to.memory()` and `.to.callback(...)`.",
        ]
    )


def _options(connector: type, names: Iterable[str]) -> str:
    known = {f.name: f for f in fields(connector)}
    rows = [
        (f"`{n}`", cell(known[n].type), "" if known[n].default is MISSING else f"`{known[n].default!r}`") for n in names
    ]
    return table(("option", "type", "default"), rows)


def _module(connector: type) -> str:
    """What the module of a connector says, from its second sentence on."""
    text = " ".join((inspect.getdoc(inspect.getmodule(connector)) or "").split())
    return re.split(r"(?<=\.) ", text, maxsplit=1)[-1]


# -- functions and aggregates ----------------------------------------------------------------------------------------


def _functions() -> str:
    by_arity: dict[str, list[Function]] = {}
    for function in FUNCTIONS.values():
        by_arity.setdefault(function.arity, []).append(function)
    rows = [(arity, ", ".join(f"`{escaped(f.name)}`" for f in known)) for arity, known in sorted(by_arity.items())]
    aliases = ", ".join(f"`{escaped(a)}` for `{escaped(name)}`" for a, name in ALIASES.items())
    refused = [
        (reason, ", ".join(f"`{n}`" for n in REFUSED if REFUSED[n] == reason)) for reason in _unique(REFUSED.values())
    ]
    return "\n\n".join(
        [
            "## Functions\n\nScalar functions and operators mean what they do in DuckDB. In Python: `ps.call(...)`.",
            table(("takes", "functions"), rows),
            f"Also known: {aliases}. `CAST`, `TRY_CAST`, `CASE` and `EXTRACT` have their own syntax.",
            "Refused, since an epoch that is run again must compute the same:",
            table(("because", "functions"), refused),
        ]
    )


def _aggregates() -> str:
    called: dict[str, list[str]] = {}
    for name, meant in AGGREGATE_NAMES.items():
        called.setdefault(meant, []).append(f"`{name}`")
    called["count_distinct"] = ["`count(DISTINCT x)`"]
    rows = [(", ".join(names), _description(getattr(aggregates, meant))) for meant, names in called.items()]
    return "## Aggregates\n\nNulls are skipped, but by `count(*)`.\n\n" + table(("in SQL", ""), rows)


# -- events and errors -----------------------------------------------------------------------------------------------


def _events_and_errors() -> str:
    told = [_with_fields(kind) for kind in typing.get_args(events.Event)]
    raised = [
        (f"`{kind.__name__}`", _description(kind))
        for _, kind in inspect.getmembers(errors, inspect.isclass)
        if issubclass(kind, errors.PenstockError)
    ]
    sections = ["## Events and errors", "What `on_event` is called with:", table(("event", "fields", ""), told)]
    return "\n\n".join(
        [*sections, "What is raised, each with `what`, `detail` and `hint`:", table(("error", ""), raised)]
    )


def _with_fields(kind: type) -> tuple[str, str, str]:
    names = ", ".join(f"`{f.name}`" for f in fields(kind))
    return f"`{kind.__name__}`", names, _description(kind)


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))


if __name__ == "__main__":
    TARGET.write_text(render())
    print(f"wrote {TARGET}")
