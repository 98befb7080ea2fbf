"""A trial as text: a case for a .case file or, if the query has no SQL, text of a similar form.

Both have the query, its settings, and the rows in order of arrival.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa

from penstock.api.streams import Stream
from penstock.errors import PenstockError
from penstock.expr.text import text
from penstock.expr.tree import Call, Case, Cast, Column, Literal, Named
from penstock.plan.logical import BatchFunction, Node, Source, inputs_of
from penstock.testing.source_rows import connector_of, sources_of
from tests.support.cases.text import sections
from tests.support.trials.sql.case import case_of
from tests.support.trials.sql.words import NoSql
from tests.support.trials.trial import Trial


def trial_text(trial: Trial, title: str, difference: str) -> str:
    """Return a runnable case if the query has SQL, with everything else as free text under its title."""
    try:
        case = case_of(trial)
    except NoSql as missing:
        return _like_a_case(trial, f"{title}\nThis cannot be run as a case: {missing}", difference)
    told = [("difference", difference), ("tree", node_text(trial.node)), ("plan", _plan(trial.node))]
    told += [("ways", _ways(trial)), ("sources", "\n".join(map(_source_head, sources_of(trial.node).values())))]
    about = [f"{name}:\n{textwrap.indent(body, '  ')}" for name, body in told]
    inputs = [(f"input {name}", rows) for name, rows in case.inputs.items()]
    return "\n\n".join([f"=== {title}", *about, sections([("query", case.query), *inputs])])


def _like_a_case(trial: Trial, head: str, difference: str) -> str:
    """Return the trial in the form of a case that cannot be run."""
    sources = "\n".join(_source_text(source) for source in sources_of(trial.node).values())
    parts = [("query", node_text(trial.node)), ("plan", _plan(trial.node)), ("ways", _ways(trial)), ("input", sources)]
    return "\n\n".join([f"=== {head}", *(f"--- {name}\n{body}" for name, body in [*parts, ("difference", difference)])])


def _ways(trial: Trial) -> str:
    return "\n".join([*map(str, trial.ways), f"order={trial.order!r}, grid={trial.grid!r}"])


def node_text(node: Node) -> str:
    """Format the tree of a query, one node per line, inputs below it."""
    if isinstance(node, Source):
        return f"Source {node.name}"
    shown = ", ".join(f"{f.name}={_shown(getattr(node, f.name))}" for f in fields(node) if f.name[:5] != "input")
    below = [textwrap.indent(node_text(part), "  ") for part in inputs_of(node)]
    return "\n".join([f"{type(node).__name__}({shown})", *below])


def _shown(value: Any) -> str:
    match value:
        case Column() | Literal() | Call() | Cast() | Case():
            return text(value)
        case Named(name, expression):
            return name if expression == Column(name) else f"{name}={text(expression)}"
        case BatchFunction(name):
            return name
        case pa.Schema():
            return f"[{', '.join(value.names)}]"
        case tuple():
            return f"({', '.join(map(_shown, value))})"
    if is_dataclass(value):
        shown = ", ".join(f"{f.name}={_shown(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({shown})"
    return repr(value)


def _plan(node: Node) -> str:
    try:
        return Stream(node).explain()
    except PenstockError as error:
        return f"none: {error}"


def _source_head(source: Source) -> str:
    connector = connector_of(source)
    head = f"source {source.name}, time {source.time}, {source.progress}, splits_per_batch={connector.splits_per_batch}"
    return f"{head}, one_batch_per_offer={connector.one_batch_per_offer}, finishing={connector.finishing}"


def _source_text(source: Source) -> str:
    connector = connector_of(source)
    lines = [_source_head(source), f"  {' | '.join(source.schema.names)}"]
    for number, batch in enumerate(connector.batches, 1):
        of = f" of {connector.substreams[number - 1]}" if connector.substreams else ""
        lines += [f"batch {number}{of}", *_rows_text(batch)]
    return "\n".join(lines)


def _rows_text(batch: pa.Table) -> Iterator[str]:
    for row in batch.to_pylist():
        yield "  " + " | ".join("null" if value is None else str(value) for value in row.values())
