"""The settings of a run, as the reference shows them: all of it is declared in the package."""

from __future__ import annotations

from typing import Any, Literal, get_args, get_origin

from reference_tables import cell, table

from penstock.declared import Setting, declared
from penstock.settings import Settings

_START_OPTIONS = (
    ("until", "str", '`"100 epochs"`, `"1_000_000 rows"` or a span: ends the run there; the checkpoint can go on'),
    ("on_event", "callable", "Python only: called with every event of the run, from its thread"),
)
_ENVIRONMENT = (
    ("PENSTOCK_SITES, PENSTOCK_MASTER, ...", "the setting of that name, in capital letters"),
    ("SPARK_LOCAL_IP", "set to 127.0.0.1 for a local master unless it is set already"),
    ("PYSPARK_PYTHON", "set to the running Python unless it is set already"),
    ("JAVA_HOME", "the Java that Spark runs on"),
)


def settings_section() -> str:
    rows = [(f"`{one.name}`", cell(_kind(one)), f"`{_default(one)}`", one.doc) for one in declared(Settings)]
    options = [(f"`{name}`", cell(kind), meaning) for name, kind, meaning in _START_OPTIONS]
    return "\n\n".join(
        [
            "## Settings\n\nA setting has the same name everywhere: `start(sites=3)`, `SET sites = 3` in a script, "
            "`sites = 3` in penstock.toml in the current folder, `PENSTOCK_SITES=3` in the environment, `--sites 3` on "
            "the command line. The command line overrides the query, the query the environment, and the environment "
            "penstock.toml. What a query computes does not depend on them.",
            table(("setting", "type", "default", ""), rows),
            "What else a run takes:",
            table(("option", "type", ""), options),
            "Environment:",
            table(("variable", ""), [(f"`{name}`", meaning) for name, meaning in _ENVIRONMENT]),
        ]
    )


def _kind(one: Setting) -> str:
    """Return the type of a setting as users write its values."""
    plain = {int: "int", float: "span", str: "str"}
    kind: Any = one.kind
    written = " | ".join(map(repr, get_args(kind))) if get_origin(kind) is Literal else plain[kind]
    span = "span | " if one.name == "max_lead" else ""
    return f"{span}{written}{' | None' if one.optional else ''}"


def _default(one: Setting) -> str:
    """Return the default of a setting as users would write it."""
    return f'"{one.default:g}s"' if one.kind is float and one.default is not None else repr(one.default)
