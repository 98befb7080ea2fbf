"""Start a query: settings, checkpoint, executor, loop, handle.

Before anything runs, folders that overlap are refused, with links resolved: two outputs in one folder would be mixed,
results inside a checkpoint would be deleted by garbage collection, and a source that reads the output of its own query
would never end.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.api.handle import Run
from penstock.api.lengths import Length, length_over, real_length
from penstock.api.process_end import prepare_process_end
from penstock.api.run_state import EventLog
from penstock.api.until import parse_until
from penstock.api.waiting import shown_starting, wanted
from penstock.balance.intake.pace import Pace
from penstock.balance.policies import policy_named
from penstock.checkpoint.store import Checkpoint, checkpoint_path, has_finished
from penstock.clock import SYSTEM_CLOCK
from penstock.connectors.sinks.sink import MemoryResults
from penstock.connectors.source import AttachedConnector, ListingConnector
from penstock.declared import Setting, declared
from penstock.engine.driver.executor import Executor, InlineExecutor
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.published_record import rows_of
from penstock.engine.driver.recovery import recover
from penstock.engine.driver.steering import Steering
from penstock.errors import ConfigError, PenstockError
from penstock.events import Event, SparkStarting
from penstock.given import given_settings, layered
from penstock.observe.event_lines import log_events, log_start
from penstock.plan.compile.subqueries import Query, compile_query
from penstock.plan.logical import Sink
from penstock.plan.options import CompileOptions
from penstock.scratch import scratch_folder
from penstock.settings import INLINE, Settings, unknown_setting
from penstock.storage.disk_errors import using_disks
from penstock.units import size, span
from penstock.user_code import name_of, raising

HANDOFF_PACE = 0.02  # seconds; a source that pushes its rows sets the pace itself, so it is polled often
_NOT_SETTINGS = ("until", "on_event", "progress")
_STAGING = "_penstock"
_OF_A_CHECKPOINT = ("query.json", "manifests/000000000000.json", "runs/e000000000001-x.arrow")


def start(sink: Sink, checkpoint: str | Path | None, options: dict[str, Any], results: MemoryResults | None) -> Run:
    """Start a query and return its handle. `options` are the settings of a run and `until`, `on_event` and
    `progress`."""
    prepare_process_end()
    until = parse_until(options.pop("until", None))
    listener: Callable[[Event], None] | None = options.pop("on_event", None)
    shows = wanted(options.pop("progress", None))
    options = layered(given_settings(), options)
    lead = options.get("max_lead")
    settings = _settings(options)
    query = compile_query(sink, CompileOptions.of(settings))
    if lead is not None:
        _check_lead(lead, query)
    with using_disks():
        root = checkpoint_path(checkpoint or _temporary_checkpoint())
        _check_apart([_Footprint(query, settings, root)])
        store = Checkpoint.open(root)
    event_log = EventLog([log_events(root.name), *([_guarded(listener)] if listener else [])])
    executor: Executor | None = None
    try:
        # A finished query has nothing left to do, so Spark is not started.
        if has_finished(store.root):
            executor = InlineExecutor()
        else:
            with _starting(settings, event_log, shows), using_disks(among_others=True):
                executor = executor_for(settings, handed_over=bool(_attached(query)))
        loop = EpochLoop(recover(query, store, settings, event_log.record), executor, event_log.record, SYSTEM_CLOCK)
        for source in _attached(query):
            source.attach(store.root)
        with using_disks():
            steering = Steering(loop, SYSTEM_CLOCK)
        log_start(root, loop.manifest.query_id, loop.manifest.epoch, settings.master)
    except BaseException:
        _close(query, executor, store)
        raise
    pace = HANDOFF_PACE if _attached(query) else settings.epoch_seconds
    return Run(loop, event_log, steering, Pace(pace), until, results, lambda: _close(query, executor, store), shows)


def _starting(settings: Settings, event_log: EventLog, shows: bool) -> AbstractContextManager[None]:
    """Report that Spark is starting, and show it while that takes seconds."""
    if settings.master == INLINE:
        return nullcontext()
    event_log.record(SparkStarting(settings.master))
    return shown_starting(f"starting Spark {settings.master}") if shows else nullcontext()


def check_together(queries: Sequence[tuple[str, Sink, str | Path | None]], options: Mapping[str, Any]) -> None:
    """Check that queries which are to run together do not share folders. Each is a name, a sink and a checkpoint; a
    checkpoint that is None is temporary and overlaps with nothing."""
    settings = settings_from({name: value for name, value in options.items() if name not in _NOT_SETTINGS})
    compile_options = CompileOptions.of(settings)
    footprints = [
        _Footprint(compile_query(sink, compile_options), settings, checkpoint_path(checkpoint or _nowhere(name)), name)
        for name, sink, checkpoint in queries
    ]
    _check_apart(footprints)


def _nowhere(name: str) -> Path:
    """Return a path that stands for the temporary checkpoint of a query; nothing is written there."""
    return Path(tempfile.gettempdir()) / "penstock-nowhere" / quote(f"q{name}", safe="")


def _guarded(listener: Callable[[Event], None]) -> Callable[[Event], None]:
    """Wrap the user's listener so that its errors name the line that raised them."""

    def call(event: Event) -> None:
        hint = "the checkpoint is intact: fix the function passed as on_event and restart the query"
        with raising(PenstockError, f"the listener `{name_of(listener)}` failed", hint):
            listener(event)

    return call


def _check_lead(lead: Length, query: Query) -> None:
    """Check that `max_lead` has a unit if a source has a TIMESTAMP time; without one it counts in the unit of the
    times."""
    for source in query.sources:
        length_over(lead, source.schema.field(source.time).type, "the setting `max_lead` of a query")


def _temporary_checkpoint() -> str:
    """Create a checkpoint folder that is deleted at the end of the process."""
    return str(scratch_folder("checkpoint"))


def _attached(query: Query) -> list[AttachedConnector]:
    """Return the connectors of the sources that push their rows."""
    return [s.connector for s in query.sources if isinstance(s.connector, AttachedConnector)]


def _close(query: Query, executor: Executor | None, store: Checkpoint) -> None:
    """Release the sources, the executor and the lock of the checkpoint."""
    for source in _attached(query):
        source.detach()
    if executor is not None:
        executor.close()
    store.close()


def settings_from(options: dict[str, Any]) -> Settings:
    """Build Settings from penstock.toml, the environment, and the options of `start` or the command line, which
    override them."""
    return _settings(layered(given_settings(), options))


def _settings(options: Mapping[str, Any]) -> Settings:
    """Build Settings from options by name; lengths are still as users write them."""
    by_name = {one.name: one for one in declared(Settings)} | {one.field: one for one in declared(Settings)}
    for name in options:
        if name not in by_name:
            raise unknown_setting(name)
    fields = {by_name[name].field: _value(name, by_name[name], value) for name, value in options.items()}
    settings = Settings().with_options(**fields)
    policy_named(settings.policy)  # refuses an unknown policy before a checkpoint is made or Spark is started
    return settings


def _value(name: str, one: Setting, value: Any) -> Any:
    """Return the value that the field of a setting holds: seconds for a length, bytes for a size, a number
    for `max_lead`."""
    if one.kind is float and name != one.field and not (value is None and one.optional):
        return real_length(value, f"the setting `{name}`") / 1e6
    if one.is_size and isinstance(value, str):
        return size(value)
    return span(value) if name == "max_lead" and value is not None else value


def executor_for(settings: Settings, handed_over: bool = False) -> Executor:
    """Create the executor for the master in `settings`. `handed_over`: a source pushes its rows with Spark jobs, which
    need the cores that a worker pool would occupy."""
    if settings.master == INLINE:
        return InlineExecutor()
    from penstock.spark.choice import executor_on  # imported late: the inline engine does not need Spark
    from penstock.spark.session import spark_context

    return executor_on(spark_context(settings.master), settings.exchange == "direct" and not handed_over)


@dataclass(frozen=True)
class _Folder:
    """A folder that a query uses. `private`: no other folder may lie inside it, except those that are `at_home`."""

    what: str
    given: Path
    private: bool = False
    at_home: bool = False

    @property
    def path(self) -> Path:
        """Return the path with all links resolved."""
        return Path(os.path.realpath(self.given))

    def holds(self, other: _Folder) -> bool:
        """Return whether `other` lies inside this folder where its readers, or garbage collection, would find it."""
        if not other.path.is_relative_to(self.path):
            return False
        between = other.path.relative_to(self.path).parts
        if self.private:
            return not other.at_home
        return not any(name.startswith((".", "_")) for name in between) or between[0] == _STAGING


@dataclass(frozen=True)
class _Footprint:
    """The folders of one query; `name` tells it from others that are started together."""

    query: Query
    settings: Settings
    checkpoint: Path
    name: str = ""

    @property
    def folders(self) -> list[_Folder]:
        """Return the folders that the query writes: its checkpoint and its outputs."""
        outputs = Outputs(self.query, self.settings, self.checkpoint).visible_folders()
        home = Path(os.path.realpath(self.checkpoint))
        return [
            _Folder(self._of("the checkpoint"), self.checkpoint, private=True),
            *(
                _Folder(self._of(f"the {rows_of(output)}"), path, at_home=Path(os.path.realpath(path)) == home / output)
                for output, path in outputs.items()
            ),
        ]

    def _of(self, what: str) -> str:
        return f"{what} of `{self.name}`" if self.name else what

    def read_back(self) -> Iterator[tuple[str, _Folder]]:
        """Yield each source that would read an output of its own query, with that folder."""
        for source in self.query.sources:
            if isinstance(source.connector, ListingConnector):
                for folder in self.folders:
                    names = _OF_A_CHECKPOINT if folder.private else ("e000000000001-x.parquet", "e000000000001-x.arrow")
                    if any(source.connector.would_list(str(folder.path / name)) for name in names):
                        yield source.name, folder


def _check_apart(footprints: Sequence[_Footprint]) -> None:
    """Check that no folder of the queries lies in another, and that no source reads the output of its own query."""
    caches = {one.settings.cache for one in footprints} - {"", "executor"}  # queries may share a cache
    folders = [_Folder("the cache", Path(path), private=True) for path in sorted(caches)]
    folders += [folder for one in footprints for folder in one.folders]
    for one, other in combinations(folders, 2):
        if one.holds(other) or other.holds(one):
            raise _overlap(one, other)
    for footprint in footprints:
        for source, folder in footprint.read_back():
            raise _read_back(source, folder)


def _overlap(one: _Folder, other: _Folder) -> ConfigError:
    outer, inner = (one, other) if one.holds(other) else (other, one)
    where = "in the same folder as" if outer.path == inner.path else "inside the folder of"
    return ConfigError(
        f"{inner.what} would lie {where} {outer.what}",
        detail=f"{_shown(inner)}, and {_shown(outer)}",
        hint="use a separate folder for each, none inside another",
    )


def _read_back(source: str, folder: _Folder) -> ConfigError:
    return ConfigError(
        f"source `{source}` would read the output of its own query",
        detail=f"its files may lie in {_shown(folder)}",
        hint="use a separate folder for each, none inside another",
    )


def _shown(folder: _Folder) -> str:
    """Return the folder as the user wrote it, with its real path if that differs."""
    given = os.path.abspath(folder.given)
    return f"{folder.what}: {given}" if given == str(folder.path) else f"{folder.what}: {given}, which is {folder.path}"
