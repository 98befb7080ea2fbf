"""The settings of a run, as one frozen value."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any

from penstock.errors import ConfigError, did_you_mean
from penstock.paths import local_path

_UNITS = {
    "us": 1, "ms": 1_000, "s": 1_000_000, "sec": 1_000_000, "second": 1_000_000, "m": 60_000_000, "min": 60_000_000,
    "minute": 60_000_000, "h": 3_600_000_000, "hour": 3_600_000_000, "d": 86_400_000_000, "day": 86_400_000_000,
}  # fmt: skip
_COUNTS = ("sites", "item_rows", "groups_per_site", "least_sites", "max_delay")
_GRID = re.compile(r"[1-9]\d{0,2}x[1-9]\d{0,2}")
_SPAN = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*")


def span(text: str | int) -> int:
    """A span of time in microseconds: "2s", "1m", "500ms", "1.5 h"; a plain integer is taken as it is."""
    if isinstance(text, int) and not isinstance(text, bool):
        return text
    match = _SPAN.fullmatch(str(text).lower())
    unit = match[2] if match else ""
    factor = _UNITS.get(unit) or _UNITS.get(unit.removesuffix("s"))
    if match is None or factor is None:
        raise ConfigError(
            f"`{text}` is not a span of time",
            detail="a span is a number and a unit",
            hint='write it as "500ms", "2s", "1m", "6h" or "1d"',
        )
    return round(float(match[1]) * factor) if "." in match[1] else int(match[1]) * factor


@dataclass(frozen=True)
class Settings:
    """How a query is run; what it computes is the query's own matter.

    `master` is a Spark master, or "inline" for the engine inside this process. `epoch_seconds` is the length an epoch
    aims at while there is a backlog, and the time from one to the next while there is none (None: half a second, and as
    soon as epochs take only a part of the time). `rows_per_epoch` fixes what an epoch takes in (None: as much as fits
    its length). No source, and no file that is a substream, leads another by more than `max_lead` of event time (None:
    no bound).

    `items`, `item_rows` and `deadline_seconds` bound the work of a site in an epoch (None: no bound); what is left
    undone waits in its buffer, and sources are slowed as that gets near `buffer_rows`. `flush` says when windows that
    are complete are closed: "eager" at once, "slow" spread over the next `max_delay` windows, "lazy" in idle time and
    at the latest after `max_delay` windows. `policy` decides every `round_seconds` which group lives where, and on
    `least_sites` to `most_sites` sites (None: no more than `sites`); it gives no site a group with which this one would
    hold more than `state_bytes` of state of a subquery (None: no bound).

    `on_full` says what a full disk does to a run: "stop" ends it with an error, "wait" makes it wait and try again
    until there is room. The checkpoint stays intact either way.

    `order` "in" makes mergers hold rows back and work in order of time, as order-sensitive Python functions need it.
    `grid` is the cells a theta join is spread over, rows by columns; it stays as it is for the life of a checkpoint.
    `exchange` "direct" keeps workers between epochs and hands blobs over in memory where all workers are on this host;
    "spark" makes every epoch a job of its own. `hash_bits` below 64 provokes collisions, for tests.

    `on_missing_results` "accept" lets a run start where published results, late or bad rows are gone that no reader can
    have taken, as with a folder that was removed: the run goes on without them. Give it for one start only.

    `cache` is a local folder in which each host keeps copies of what it needs of the state, of about `cache_bytes`; or
    "executor", one for each executor of Spark, in the folder that Spark gives it. Empty: state is read where the
    checkpoint is.
    """

    sites: int = 2
    master: str = "local[*]"
    epoch_seconds: float | None = None
    rows_per_epoch: int | None = None
    item_rows: int = 1_000_000
    items: int | None = None
    deadline_seconds: float | None = None
    groups_per_site: int = 16
    buffer_rows: int | None = None
    max_lead: int | None = None
    flush: str = "eager"
    max_delay: int = 1
    on_bad_row: str = "stop"
    on_missing_results: str = "stop"
    on_full: str = "stop"
    late: str = ""
    bad: str = ""
    order: str = "any"
    grid: str = "2x2"
    exchange: str = "direct"
    policy: str = "even"
    round_seconds: float = 5.0
    state_bytes: int | None = None
    least_sites: int = 1
    most_sites: int | None = None
    hash_bits: int = 64
    attempts_per_epoch: int = 5
    cache: str = ""
    cache_bytes: int = 10 << 30

    def __post_init__(self) -> None:
        for name in (*_COUNTS, "attempts_per_epoch", "cache_bytes"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "a whole number above zero")
        _require(self.on_bad_row in ("stop", "divert"), "on_bad_row", self.on_bad_row, "'stop' or 'divert'")
        known_missing = self.on_missing_results in ("stop", "accept")
        _require(known_missing, "on_missing_results", self.on_missing_results, "'stop' or 'accept'")
        _require(self.on_full in ("stop", "wait"), "on_full", self.on_full, "'stop' or 'wait'")
        _require(self.flush in ("eager", "slow", "lazy"), "flush", self.flush, "'eager', 'slow' or 'lazy'")
        _require(self.order in ("any", "in"), "order", self.order, "'any' or 'in'")
        _require(self.exchange in ("direct", "spark"), "exchange", self.exchange, "'direct' or 'spark'")
        _require(_GRID.fullmatch(self.grid) is not None, "grid", self.grid, "rows x columns, as in '2x3'")
        for name, what in (("late", "the late rows"), ("bad", "the bad rows"), ("cache", "a cache")):
            object.__setattr__(self, name, local_path(getattr(self, name), what))
        known = self.cache in ("", "executor") or PurePath(self.cache).is_absolute()
        _require(known, "cache", self.cache, "an absolute path, or 'executor'")
        for optional in ("rows_per_epoch", "items", "most_sites", "buffer_rows", "state_bytes"):
            value = getattr(self, optional)
            _require(value is None or value >= 1, optional, value, "a whole number above zero")
        self._check_sites()
        _require(self.max_lead is None or self.max_lead >= 0, "max_lead", self.max_lead, "a span")
        _require(self.round_seconds >= 0, "round", self.round_seconds, "a span")
        _require(self.epoch_seconds is None or self.epoch_seconds > 0, "epoch", self.epoch_seconds, "a span above zero")

    def _check_sites(self) -> None:
        most, named = (self.sites, "sites") if self.most_sites is None else (self.most_sites, "most_sites")
        if self.least_sites > most:
            raise ConfigError(
                f"the setting `least_sites` cannot be {self.least_sites}",
                detail=f"a policy may not go above {most} sites, as `{named}` says",
                hint=f"give `least_sites` {most} or less, or raise `most_sites`",
            )

    @property
    def cells(self) -> tuple[int, int]:
        """The rows and the columns of the grid."""
        rows, columns = self.grid.split("x")
        return int(rows), int(columns)

    def with_options(self, **options: Any) -> Settings:
        """These settings with some changed; an unknown name is an error with a suggestion."""
        known = [f.name for f in fields(self)]
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown setting `{name}`", hint=did_you_mean(name, known))
        return replace(self, **options)


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"the setting `{name}` cannot be {value!r}", hint=f"give it {wanted}")
