"""The settings of a run, as one immutable value."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields, replace
from pathlib import PurePath
from typing import Any

from penstock.errors import ConfigError, did_you_mean
from penstock.paths import local_path

INLINE = "inline"  # the master of runs in this process, without Spark
MASTER_VARIABLE = "PENSTOCK_MASTER"  # environment variable: the master of runs that name none
_GRID = re.compile(r"[1-9]\d{0,2}x[1-9]\d{0,2}")
_MASTER = re.compile(
    r"inline|local|local\[(\*|[1-9]\d{0,3})(\s*,\s*[1-9]\d*)?\]|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]"
    r"|yarn|[a-z][a-z0-9+.-]*://\S+"
)
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


def yes_or_no(text: str) -> bool:
    """Return the value of a flag given as text. Raises ConfigError for other text."""
    folded = text.lower()
    if folded not in (*_TRUE, *_FALSE):
        raise ConfigError("it is neither true nor false", hint="write true or false")
    return folded in _TRUE


MOST_SITES = 10_000  # bounds the damage of a typing error
_MANY_ROWS, _MANY_BYTES, _FAR = 10**12, 2**62, 2**62
_DAY = 86_400.0  # seconds

# The least and the greatest value of each setting that is a whole number.
_WHOLE: dict[str, tuple[int, int]] = {
    "sites": (1, MOST_SITES), "least_sites": (1, MOST_SITES), "most_sites": (1, MOST_SITES),
    "groups_per_site": (1, 4_096), "rows_per_epoch": (1, _MANY_ROWS), "item_rows": (1, _MANY_ROWS),
    "items": (1, _MANY_ROWS), "buffer_rows": (1, _MANY_ROWS), "max_lead": (0, _FAR), "max_delay": (1, 1_000_000),
    "state_bytes": (1, _MANY_BYTES), "cache_bytes": (1, _MANY_BYTES), "hash_bits": (0, 64),
    "attempts_per_epoch": (1, 1_000),
}  # fmt: skip
# The least and the greatest value of each setting that is in seconds of system time, and the name that users give.
_SECONDS: dict[str, tuple[float, float, str]] = {
    "epoch_seconds": (1e-6, _DAY, "epoch"), "deadline_seconds": (1e-6, _DAY, "deadline"),
    "round_seconds": (0.0, 365 * _DAY, "round"),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """The settings that say how a query is run, as opposed to what it computes.

    `master` is a Spark master, or "inline" for the engine inside this process. `epoch_seconds` is the target length of
    an epoch while there is a backlog, and the time between two epochs while there is none (None: half a second, and
    pauses that keep epochs to a part of the time). `rows_per_epoch` fixes the rows that an epoch takes in (None: as
    many as fit its length). No source, and no file that is a substream, leads another by more than `max_lead` of event
    time (None: no limit).

    `items`, `item_rows` and `deadline_seconds` limit the work of a site in an epoch (None: no limit); the rest waits in
    the site's buffer, and sources are slowed down as the buffer nears `buffer_rows`. `flush` says when complete windows
    are closed: "eager" at once, "slow" spread over the next `max_delay` windows, "lazy" in idle time and at the latest
    after `max_delay` windows. `policy` decides every `round_seconds` which site owns which group, on `least_sites` to
    `most_sites` sites (None: at most `sites`). It never moves a group to a site that would then hold more than
    `state_bytes` of a subquery's state (None: no limit).

    `lateness` "window": a row below the punctuation is late for closed windows and counts in open ones; "row": it
    counts in none. The setting is fixed for the life of a checkpoint. `on_full` says what happens when a disk is full:
    "stop" ends the run with an error, "wait" retries until there is room. The checkpoint stays intact either way.

    `order` "in" makes mergers hold rows back and process them in order of time, as order-sensitive Python functions
    need it. `grid` is the cells of a theta join, rows by columns; "auto": about one per site, also when the number of
    sites changes. The setting is fixed for the life of a checkpoint. `exchange` "direct" keeps workers between epochs
    and passes blobs in memory if all workers are on this host; "spark" runs every epoch as a Spark job. `hash_bits`
    below 64 provokes collisions, for tests.

    `on_missing_results` "accept" lets a run start although published results, late or bad rows are missing that no
    reader can have taken, such as after a folder was removed: the run continues without them. Use it for one start
    only.

    `cache` is a local folder in which each host keeps copies of the state that it needs, about `cache_bytes` of it; or
    "executor", one cache per Spark executor, in the folder that Spark gives it. Empty: state is read from the
    checkpoint directly.
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
    lateness: str = "window"
    on_bad_row: str = "stop"
    on_missing_results: str = "stop"
    on_full: str = "stop"
    late: str = ""
    bad: str = ""
    order: str = "any"
    grid: str = "auto"
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
        _check_numbers(self)
        check_master(self.master)
        _require(self.on_bad_row in ("stop", "divert"), "on_bad_row", self.on_bad_row, "'stop' or 'divert'")
        known_missing = self.on_missing_results in ("stop", "accept")
        _require(known_missing, "on_missing_results", self.on_missing_results, "'stop' or 'accept'")
        _require(self.lateness in ("window", "row"), "lateness", self.lateness, "'window' or 'row'")
        _require(self.on_full in ("stop", "wait"), "on_full", self.on_full, "'stop' or 'wait'")
        _require(self.flush in ("eager", "slow", "lazy"), "flush", self.flush, "'eager', 'slow' or 'lazy'")
        _require(self.order in ("any", "in"), "order", self.order, "'any' or 'in'")
        _require(self.exchange in ("direct", "spark"), "exchange", self.exchange, "'direct' or 'spark'")
        fixed = _GRID.fullmatch(self.grid) is not None
        _require(fixed or self.grid == "auto", "grid", self.grid, "'auto', or rows x columns, as in '2x3'")
        for name, what in (("late", "the late rows"), ("bad", "the bad rows"), ("cache", "a cache")):
            object.__setattr__(self, name, local_path(getattr(self, name), what))
        known = self.cache in ("", "executor") or PurePath(self.cache).is_absolute()
        _require(known, "cache", self.cache, "an absolute path, or 'executor'")
        self._check_sites()

    def _check_sites(self) -> None:
        """Raise ConfigError if `least_sites` is above the largest allowed number of sites."""
        most, named = (self.sites, "sites") if self.most_sites is None else (self.most_sites, "most_sites")
        if self.least_sites > most:
            raise ConfigError(
                f"the setting `least_sites` cannot be {self.least_sites}",
                detail=f"a policy may not go above {most} sites, as `{named}` says",
                hint=f"give `least_sites` {most} or less, or raise `most_sites`",
            )

    @property
    def cells(self) -> tuple[int, int] | None:
        """Return the rows and the columns of the grid; None if it follows the number of sites."""
        if self.grid == "auto":
            return None
        rows, columns = self.grid.split("x")
        return int(rows), int(columns)

    def with_options(self, **options: Any) -> Settings:
        """Return these settings with some changed. Raises ConfigError, with a suggestion, for an unknown name."""
        known = [f.name for f in fields(self)]
        for name in options:
            if name not in known:
                raise ConfigError(f"unknown setting `{name}`", hint=did_you_mean(name, known))
        return replace(self, **options)


def default_master() -> str:
    """Return the master of a run that names none: that of the environment variable PENSTOCK_MASTER, or the default."""
    return named_master() or Settings().master


def named_master() -> str | None:
    """Return the master that the environment variable PENSTOCK_MASTER names; None if it is not set."""
    return os.environ.get(MASTER_VARIABLE) or None


def check_master(master: str) -> None:
    """Raise ConfigError if `master` is not a Spark master, before anything is started for it."""
    if not isinstance(master, str) or _MASTER.fullmatch(master) is None:
        raise ConfigError(
            f"`{master}` is not a Spark master",
            detail="a master is `local[2]` or `local[*]` for cores of this machine, `spark://host:7077`, `yarn` or "
            "`k8s://...` for a cluster, or `inline` for the engine in this process, without Spark",
            hint=did_you_mean(str(master), ["inline", "local[*]", "local[2]", "yarn", "spark://host:7077"]),
        )


def _check_numbers(settings: Settings) -> None:
    """Raise ConfigError if a number is not valid or out of range; None is valid for settings whose default is None."""
    open_ = {f.name for f in fields(settings) if f.default is None}
    for name, (least, most) in _WHOLE.items():
        value = getattr(settings, name)
        holds = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
        _require(holds or (value is None and name in open_), name, value, f"a whole number from {least} to {most}")
    for name, (lowest, highest, written) in _SECONDS.items():
        value = getattr(settings, name)
        holds = isinstance(value, int | float) and not isinstance(value, bool) and lowest <= value <= highest
        wanted = f'a span from {"0s" if not lowest else "1us"} to {highest / 3600:g}h, as in "2s"'
        _require(holds or (value is None and name in open_), written, value, wanted)
    for f in fields(settings):
        if isinstance(f.default, str):
            value = getattr(settings, f.name)
            _require(isinstance(value, str), f.name, value, "a text")


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"the setting `{name}` cannot be {value!r}", hint=f"give it {wanted}")
