"""Options of `start` and `explain`, with their types: editors complete them, and type checkers refuse a wrong name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypedDict

from penstock.api.until import parse_until
from penstock.events import Event
from penstock.option_text import checked, read_settings
from penstock.settings import Exchange, Flush, Lateness, OnBadRow, OnFull, OnMissingResults, OverflowMode, RowOrder


class SettingOptions(TypedDict, total=False):
    """The settings of a run (`penstock.settings.Settings`), as keywords."""

    sites: int
    master: str
    epoch: str | timedelta | None
    rows_per_epoch: int | None
    item_rows: int
    items: int | None
    deadline: str | timedelta | None
    groups_per_site: int
    buffer_rows: int | None
    max_lead: str | timedelta | int | None
    flush: Flush
    max_delay: int
    lateness: Lateness
    on_bad_row: OnBadRow
    on_missing_results: OnMissingResults
    disk: str | int | None
    on_full: OnFull
    late: str
    bad: str
    order: RowOrder
    grid: str
    exchange: Exchange
    policy: str
    round: str | timedelta
    memory: str | int | None
    overflow: OverflowMode
    state_bytes: str | int | None
    least_sites: int
    most_sites: int | None
    hash_bits: int
    attempts_per_epoch: int
    cache: str
    cache_bytes: str | int


class RunOptions(SettingOptions, total=False):
    """The options of `start`: the settings; `until`, the condition that ends the run; `on_event`, which is called with
    every event; `progress`, whether a terminal shows how far the run is."""

    until: str | None
    on_event: Callable[[Event], None] | None
    progress: bool | None


def read_run_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Parse the options of `start` that can be given as text: the settings and `until`."""
    return read_settings(options, {"until": checked(parse_until)})
