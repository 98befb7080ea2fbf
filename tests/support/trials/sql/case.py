"""A trial as a case: a SQL script that can be planned, and the rows of its sources.

A case runs without restarts, with the settings of the last way. Its sources offer one batch per epoch, whatever those
of the trial do, and do not report that a substream is finished.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from penstock.errors import PenstockError
from penstock.expr.text import text
from penstock.expr.tree import Literal
from penstock.plan.compile.subqueries import node_schema
from penstock.sql import parse_script
from penstock.testing.source_rows import sources_of
from penstock.testing.ways import Way
from tests.support.cases.source import CaseConnectors
from tests.support.trials.sql.select import select_of
from tests.support.trials.sql.sources import input_text, source_sql
from tests.support.trials.sql.words import NoSql
from tests.support.trials.trial import Trial


@dataclass(frozen=True)
class TrialCase:
    """The `--- query` of a case, and its inputs by name."""

    query: str
    inputs: Mapping[str, str]


def case_of(trial: Trial) -> TrialCase:
    """Return the case; its query has a plan with the columns of the trial. Raise NoSql if there is none."""
    sources = sources_of(trial.node)
    names = [name for source in sources.values() for name in (source.name, *source.schema.names)]
    if unsuitable := [name for name in names if not name.isidentifier()]:
        raise NoSql(f"the input of a case has no way to write the name {unsuitable[0]!r}")
    query = "\n".join([*_settings(trial), *map(source_sql, sources.values()), select_of(trial.node)])
    case = TrialCase(query, {name: input_text(source) for name, source in sources.items()})
    _check(case, trial)
    return case


def _settings(trial: Trial) -> Iterator[str]:
    """Yield SET for each setting that differs from the defaults of a case, except `rows_per_epoch`: epochs are as
    written."""
    chosen = asdict(trial.ways[-1]) | {"order": trial.order, "grid": trial.grid}
    chosen |= {"lateness": trial.lateness or "window"}
    usual = asdict(Way()) | {"order": "any", "grid": "auto", "lateness": "window"}
    for name, value in chosen.items():
        if name != "rows_per_epoch" and value != usual[name]:
            yield f"SET {name} = {text(Literal(value))};"


def _check(case: TrialCase, trial: Trial) -> None:
    """Raise NoSql if the query cannot be planned, or has other columns than the trial."""
    try:
        planned = parse_script(case.query, connectors=CaseConnectors(case.inputs)).queries[0][1]
        found, wanted = node_schema(planned), node_schema(trial.node)
    except PenstockError as error:
        raise NoSql(f"SQL refuses the query: {error.what}") from error
    if not found.equals(wanted):
        raise NoSql(f"SQL gives the columns {found.names}, not {wanted.names}")
