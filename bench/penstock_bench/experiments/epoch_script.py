"""The script of `epoch-cost`: state that stays, epochs of rows, and epochs that only close.

Each lot of rows is a substream of its own and lies in a window of its own. The next lot is read before the one before
it finishes: so the finish, an epoch without rows, is what lets the stream go on and closes the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from penstock_bench.experiments.scripted import Step

WINDOW = 10_000_000  # microseconds
FAR = 10_000 * WINDOW  # the state lies in a window that is never reached
KEYS = 100_000

ROWS, CLOSING, FEW, CLOSING_MANY, OTHER = "rows", "closing", "few", "closing-many", "other"


@dataclass(frozen=True)
class Sizes:
    """How many rows the state has, an epoch of rows has, and a window has whose closing is measured."""

    state: int = 1_000_000
    rows: int = 10_000
    few: int = 1_000


@dataclass(frozen=True)
class Scripted:
    """An epoch and what it is measured as."""

    kind: str
    step: Step


def script(sizes: Sizes, cycles: int) -> list[Scripted]:
    """A few rows, the state, and then in each cycle: many rows, the closing of the few, few rows, the closing of the
    many."""
    made = [Scripted(OTHER, _lot(0, sizes.few)), *(Scripted(OTHER, step) for step in _state(sizes.state))]
    for number in range(0, 2 * cycles, 2):
        made += [
            Scripted(ROWS, _lot(number + 1, sizes.rows)),
            Scripted(CLOSING, Step(finished=(_name(number),))),
            Scripted(FEW, _lot(number + 2, sizes.few)),
            Scripted(CLOSING_MANY, Step(finished=(_name(number + 1),))),
        ]
    return made


def _name(number: int) -> str:
    return f"lot-{number}"


def _lot(number: int, rows: int) -> Step:
    low = number * WINDOW
    return Step(_name(number), rows, low, low + WINDOW, first_key=number, keys=KEYS)


def _state(rows: int, parts: int = 4) -> list[Step]:
    """Distinct keys, in parts: no epoch is asked to take a million rows of one split."""
    size = -(-rows // parts)
    starts = range(0, rows, size)
    return [Step("far", min(size, rows - s), FAR, FAR + WINDOW, first_key=s, keys=size) for s in starts]


def closed_rows(made: Sequence[Scripted]) -> pa.Table:
    """The batch answer for the windows that the script closes."""
    finished = {name for one in made for name in one.step.finished}
    rows = pa.concat_tables([one.step.table() for one in made if one.step.substream in finished])
    with duckdb.connect() as connection:
        connection.register("rows", rows)
        answer: pa.Table = connection.sql(
            f"""SELECT k, time_bucket(INTERVAL '{WINDOW} microseconds', ts) AS window_start,
                       count(*) AS n, sum(v) AS s FROM rows GROUP BY ALL"""
        ).to_arrow_table()
        return answer
