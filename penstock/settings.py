"""The settings of a run, as one immutable value.

A setting has one name everywhere: a keyword of `start`, `SET name = value` in a script, a key of penstock.toml, the
variable PENSTOCK_NAME, and an option of the command line. Its type, its limits, its default and its line of
documentation are declared here and nowhere else.
"""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from penstock.declared import BYTES, declared
from penstock.errors import ConfigError, did_you_mean
from penstock.paths import local_path

INLINE = "inline"  # the master of runs in this process, without Spark
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

_Sites: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_SITES)]
_Rows: TypeAlias = Annotated[int, Meta(ge=1, le=_MANY_ROWS)]
_Bytes: TypeAlias = Annotated[int, Meta(ge=1, le=_MANY_BYTES, extra={BYTES: True})]
_Length: TypeAlias = Annotated[float, Meta(ge=1e-6, le=_DAY)]  # seconds; users write a span
Flush: TypeAlias = Literal["eager", "slow", "lazy"]
Lateness: TypeAlias = Literal["window", "row"]
OnBadRow: TypeAlias = Literal["stop", "divert"]
OnMissingResults: TypeAlias = Literal["stop", "accept"]
OnFull: TypeAlias = Literal["stop", "wait"]
OverflowMode: TypeAlias = Literal["read", "park", "rotate", "defer"]
RowOrder: TypeAlias = Literal["any", "in"]
Exchange: TypeAlias = Literal["direct", "spark"]


def _doc(line: str) -> Meta:
    return Meta(description=line)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that say how a query is run, as opposed to what it computes.

    The fields in seconds have another name for users, who write them as spans: `epoch="2s"`.
    """

    sites: Annotated[
        _Sites,
        _doc("how many tasks the state of a subquery is spread over; may change at a restart, and while it runs"),
    ] = 2
    master: Annotated[
        str,
        _doc("a Spark master such as `local[*]` or `spark://host:7077`, or `inline`: in this process, without Spark"),
    ] = "local[*]"
    epoch_seconds: Annotated[
        _Length | None,
        _doc(
            "the length an epoch aims at with a backlog, and the time from one to the next without; None: half a "
            "second with a backlog, and without one short pauses after short epochs"
        ),
    ] = msgspec.field(default=None, name="epoch")
    rows_per_epoch: Annotated[
        _Rows | None, _doc("how many rows an epoch takes in; None: as many as fit its length")
    ] = None
    item_rows: Annotated[_Rows, _doc("about how many rows a work item of a site has")] = 1_000_000
    items: Annotated[
        _Rows | None,
        _doc("how many items a site does at most in an epoch, the rest waits in its buffer; None: no limit"),
    ] = None
    deadline_seconds: Annotated[
        _Length | None, _doc("the time in an epoch after which a site begins no further item; None: no limit")
    ] = msgspec.field(default=None, name="deadline")
    groups_per_site: Annotated[
        int, Meta(ge=1, le=4_096), _doc("how many partition groups a new checkpoint has for each site")
    ] = 16
    buffer_rows: Annotated[
        _Rows | None,
        _doc(
            "how many rows wait at a site at most, whatever its deadline; sources are slowed down from half of that "
            "on; None: no limit"
        ),
    ] = None
    max_lead: Annotated[
        Annotated[int, Meta(ge=0, le=_FAR)] | None,
        _doc(
            "how far a source, or a file that is a substream, may run ahead of the others in event time, as a span "
            "or in the unit of an integer time, between their marks, so slack and allowed lateness count; the one "
            "that lags is never held back; None: no limit"
        ),
    ] = None
    flush: Annotated[
        Flush,
        _doc(
            "when complete windows are closed: `eager`: at once; `slow`: spread over the next `max_delay` windows; "
            "`lazy`: in idle time, and at the latest after `max_delay` windows"
        ),
    ] = "eager"
    max_delay: Annotated[
        int,
        Meta(ge=1, le=1_000_000),
        _doc(
            "by how many windows closings may be put off; by more only where `items` or `deadline` leave no time "
            "for them"
        ),
    ] = 1
    lateness: Annotated[
        Lateness,
        _doc(
            "`window`: a row below the punctuation is late for closed windows, and counts in open ones; `row`: it "
            "counts in none; fixed for the life of a checkpoint"
        ),
    ] = "window"
    on_bad_row: Annotated[
        OnBadRow, _doc("`stop` ends the run at a malformed row, `divert` sends it to the bad output")
    ] = "stop"
    on_missing_results: Annotated[
        OnMissingResults,
        _doc(
            "`stop` refuses to start where published rows are missing that no reader can have taken, such as after "
            "a folder was removed; `accept` continues without them: use it for one start only"
        ),
    ] = "stop"
    disk: Annotated[
        _Bytes | None,
        _doc(
            "how much the checkpoint may take on disk: state, staged rows and manifests, not published rows; from 80 % "
            "of it on less and less is taken in; None: as much as there is"
        ),
    ] = None
    on_full: Annotated[
        OnFull,
        _doc(
            "`stop` ends the run with an error when a disk is full, or `disk` is used up; `wait` retries until there "
            "is room"
        ),
    ] = "stop"
    late: Annotated[str, _doc("folder of the late rows; empty: `late` in the checkpoint")] = ""
    bad: Annotated[str, _doc("folder of the bad rows; empty: `bad` in the checkpoint")] = ""
    order: Annotated[
        RowOrder,
        _doc(
            "`in`: rows reach operators, Python functions and the sink in order of time; fixed for the life of a "
            "checkpoint"
        ),
    ] = "any"
    grid: Annotated[
        str,
        _doc(
            "the cells of a theta join: `auto`: about one for each site; or rows x columns; fixed for the life of a "
            "checkpoint"
        ),
    ] = "auto"
    exchange: Annotated[
        Exchange,
        _doc(
            "`direct`: workers stay between epochs and pass rows on in memory if all are on this host; `spark`: "
            "every epoch is a Spark job, with its shuffle"
        ),
    ] = "direct"
    policy: Annotated[
        str,
        _doc(
            "what decides which group lives where, and whose state is parked: `static`, `even`, `flux`, `diffusion`, "
            "`elastic`, `memory`, `hybrid`, `local`, `lazy-disk`, `active-disk`"
        ),
    ] = "even"
    round_seconds: Annotated[
        Annotated[float, Meta(ge=0.0, le=365 * _DAY)], _doc("how long a policy watches before it decides")
    ] = msgspec.field(default=5.0, name="round")
    memory: Annotated[
        _Bytes | None,
        _doc(
            "how much memory the rows and the state of a site may take, beyond what an idle worker needs; the rest "
            "stays in files; None: half of the machine's, or of its control group's, for all sites together"
        ),
    ] = None
    overflow: Annotated[
        OverflowMode,
        _doc(
            "what happens to state that exceeds `state_bytes`: `read`: it stays in use, and is read from files; "
            "`park`: some groups are parked, and the results that they owe are produced in idle time, when there is "
            "room again, or at the end; `rotate`: also in turns under load; `defer`: only at the end of the input, or "
            "when results are delayed by more than `max_delay` windows"
        ),
    ] = "read"
    state_bytes: Annotated[
        _Bytes | None,
        _doc(
            "a policy gives no site more state of a subquery than this, unless another holds even more; sites that "
            "hold more give some away under `even`, `memory`, `hybrid`, `lazy-disk` and `active-disk`; None: no limit"
        ),
    ] = None
    least_sites: Annotated[_Sites, _doc("how many sites a policy keeps at least")] = 1
    most_sites: Annotated[_Sites | None, _doc("how many sites a policy uses at most; None: `sites`")] = None
    hash_bits: Annotated[
        int, Meta(ge=0, le=64), _doc("below 64 provokes hash collisions, for tests; fixed for the life of a checkpoint")
    ] = 64
    attempts_per_epoch: Annotated[
        int,
        Meta(ge=1, le=1_000),
        _doc("how often an epoch is run, if workers are lost or its tasks disagree, before the run fails"),
    ] = 5
    cache: Annotated[
        str,
        _doc(
            "on a cluster: a local folder (an absolute path) in which each host keeps copies of the state that it "
            "needs, or `executor`: one for each executor, in the folder that Spark gives it; empty: state is read "
            "where the checkpoint is"
        ),
    ] = ""
    cache_bytes: Annotated[
        _Bytes, _doc("about how much such a cache takes; more where the sites of its host need more in one epoch")
    ] = 10 << 30

    def __post_init__(self) -> None:
        for one in declared(Settings):
            one.check(getattr(self, one.field))
        check_master(self.master)
        fixed = _GRID.fullmatch(self.grid) is not None
        _require(fixed or self.grid == "auto", "grid", self.grid, "'auto', or rows x columns, as in '2x3'")
        for name, what in (("late", "the late rows"), ("bad", "the bad rows"), ("cache", "a cache")):
            msgspec.structs.force_setattr(self, name, local_path(getattr(self, name), what))
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
        """Return these settings with some fields changed. Raises ConfigError, with a suggestion, for an unknown
        name."""
        known = [one.field for one in declared(Settings)]
        for name in options:
            if name not in known:
                raise unknown_setting(name)
        return msgspec.structs.replace(self, **options)


def setting_names() -> list[str]:
    """Return the names of all settings, as users write them."""
    return [one.name for one in declared(Settings)]


def unknown_setting(name: str, detail: str = "") -> ConfigError:
    """Return the error for a name that no setting has."""
    return ConfigError(f"unknown setting `{name}`", detail=detail, hint=did_you_mean(name, setting_names()))


def check_master(master: str) -> None:
    """Raise ConfigError if `master` is not a Spark master, before anything is started for it."""
    if not isinstance(master, str) or _MASTER.fullmatch(master) is None:
        raise ConfigError(
            f"`{master}` is not a Spark master",
            detail="a master is `local[2]` or `local[*]` for cores of this machine, `spark://host:7077`, `yarn` or "
            "`k8s://...` for a cluster, or `inline` for the engine in this process, without Spark",
            hint=did_you_mean(str(master), ["inline", "local[*]", "local[2]", "yarn", "spark://host:7077"]),
        )


def _require(holds: bool, name: str, value: object, wanted: str) -> None:
    if not holds:
        raise ConfigError(f"the setting `{name}` cannot be {value!r}", hint=f"give it {wanted}")
