"""Parts of Flink SQL that the workloads share.

Flink's event time has milliseconds, the streams have microseconds. Windows of whole seconds do not notice. A band does:
rounding down keeps every pair of it, and lets in some that are up to a millisecond too far apart; so after the interval
join the microseconds decide (`NAME_us`, see `flink_columns.py`).
"""

from __future__ import annotations

MICROSECONDS = 1_000_000


def near(row: str, other: str, before: int, after: int) -> str:
    """The time of `row` lies from `before` seconds before that of `other` to `after` seconds after it."""
    first, last = f"{other}.ts_us - {before * MICROSECONDS}", f"{other}.ts_us + {after * MICROSECONDS}"
    rounded = f"{row}.ts BETWEEN {other}.ts - INTERVAL '{before}' SECOND AND {other}.ts + INTERVAL '{after}' SECOND"
    return f"{rounded} AND {row}.ts_us BETWEEN {first} AND {last}"
