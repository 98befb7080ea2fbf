"""Starting a query: settings, checkpoint, executor, loop, handle.

Rows of two outputs in one folder would be mixed, results inside a checkpoint would be collected, and a source that
reads what its query writes would never come to an end. All of that is found before anything runs; links are resolved.
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
from penstock.api.run_state import Ears
from penstock.api.until import parse_until
from penstock.api.waiting import shown_starting, wanted
from penstock.balance.intake.pace import Pace
from penstock.balance.policies import policy_named
from penstock.checkpoint.store import Checkpoint, checkpoint_path, has_finished
from penstock.connectors.sinks.collected import MemoryResults
from penstock.connectors.source import AttachedConnector, ListingConnector
from penstock.engine.driver.executor import Executor, InlineExecutor
from penstock.engine.driver.loop import EpochLoop
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.standing import rows_of
from penstock.engine.driver.steering import Steering
from penstock.errors import ConfigError, PenstockError
from penstock.events import Event, SparkStarting
from penstock.plan.compile.subqueries import Query, compile_query
from penstock.plan.logical import Sink
from penstock.plan.options import CompileOptions
from penstock.scratch import scratch_folder
from penstock.settings import INLINE, Settings, default_master, span
from penstock.storage.disk_errors import using_disks
from penstock.user_code import told

HANDOFF_PACE = 0.02  # a source that hands rows over sets the pace itself, and is looked at often
_NOT_SETTINGS = ("until", "on_event", "progress")
_STAGING = "_penstock"
_OF_A_CHECKPOINT = ("query.json", "manifests/000000000000.json", "runs/e000000000001-x.arrow")


def start(sink: Sink, checkpoint: str | Path | None, options: dict[str, Any], results: MemoryResults | None) -> Run:
    prepare_process_end()
    until = parse_until(options.pop("until", None))
    listener: Callable[[Event], None] | None = options.pop("on_event", None)
    shows = wanted(options.pop("progress", None))
    lead = options.get("max_lead")
    settings = settings_from(options)
    query = compile_query(sink, CompileOptions.of(settings))
    if lead is not None:
        _check_lead(lead, query)
    with using_disks():
        root = checkpoint_path(checkpoint or _temporary_checkpoint())
        _check_apart([_Footprint(query, settings, root)])
        store = Checkpoint.open(root)
    ears = Ears([_guarded(listener)] if listener else [])
    executor: Executor | None = None
    try:
        # No Spark is started to say that nothing is left to do.
        if has_finished(store.root):
            executor = InlineExecutor()
        else:
            with _starting(settings, ears, shows), using_disks(among_others=True):
                executor = executor_for(settings, handed_over=bool(_attached(query)))
        loop = EpochLoop(query, store, executor, settings, ears.hear)
        for source in _attached(query):
            source.attach(store.root)
        with using_disks():
            steering = Steering(loop)
    except BaseException:
        _close(query, executor, store)
        raise
    pace = HANDOFF_PACE if _attached(query) else settings.epoch_seconds
    return Run(loop, ears, steering, Pace(pace), until, results, lambda: _close(query, executor, store), shows)


def _starting(settings: Settings, ears: Ears, shows: bool) -> AbstractContextManager[None]:
    """Tell that Spark is started, and show it while it takes its seconds."""
    if settings.master == INLINE:
        return nullcontext()
    ears.hear(SparkStarting(settings.master))
    return shown_starting(f"starting Spark {settings.master}") if shows else nullcontext()


def check_together(queries: Sequence[tuple[str, Sink, str | Path | None]], options: Mapping[str, Any]) -> None:
    """Refuse queries that are to be started together, each with its name and its checkpoint, if they would get into
    each other's way. A checkpoint that nobody names is not in anybody's way."""
    settings = settings_from({name: value for name, value in options.items() if name not in _NOT_SETTINGS})
    compile_options = CompileOptions.of(settings)
    footprints = [
        _Footprint(compile_query(sink, compile_options), settings, checkpoint_path(checkpoint or _nowhere(name)), name)
        for name, sink, checkpoint in queries
    ]
    _check_apart(footprints)


def _nowhere(name: str) -> Path:
    return Path(tempfile.gettempdir()) / "penstock-nowhere" / quote(f"q{name}", safe="")


def _guarded(listener: Callable[[Event], None]) -> Callable[[Event], None]:
    """The listener of the user, whose errors name the line they come from."""

    def call(event: Event) -> None:
        try:
            listener(event)
        except PenstockError:
            raise
        except Exception as error:
            name = getattr(listener, "__qualname__", type(listener).__name__)
            raise PenstockError(
                f"the listener `{name}` failed",
                detail=told(error),
                hint="correct what is given as on_event and start the query again: the checkpoint is intact",
            ) from error

    return call


def _check_lead(lead: Length, query: Query) -> None:
    """Refuse a number over a TIMESTAMP; it counts in the unit of the times, like all spans of event time."""
    for source in query.sources:
        length_over(lead, source.schema.field(source.time).type, "the setting `max_lead` of a query")


def _temporary_checkpoint() -> str:
    """For a run that nobody will continue: it is gone with the process."""
    return str(scratch_folder("checkpoint"))


def _attached(query: Query) -> list[AttachedConnector]:
    return [s.connector for s in query.sources if isinstance(s.connector, AttachedConnector)]


def _close(query: Query, executor: Executor | None, store: Checkpoint) -> None:
    for source in _attached(query):
        source.detach()
    if executor is not None:
        executor.close()
    store.close()


def settings_from(options: dict[str, Any]) -> Settings:
    """Settings from the options of `start` and the flags of the command line."""
    options = {"master": default_master()} | options
    for written, name in (("epoch", "epoch_seconds"), ("deadline", "deadline_seconds"), ("round", "round_seconds")):
        if written in options:
            options[name] = real_length(options.pop(written), f"the setting `{written}`") / 1e6
    if options.get("max_lead") is not None:
        options["max_lead"] = span(options["max_lead"])
    settings = Settings().with_options(**options)
    policy_named(settings.policy)  # one that nobody knows is refused before there is a checkpoint or a Spark
    return settings


def executor_for(settings: Settings, handed_over: bool = False) -> Executor:
    """`handed_over`: some source hands its rows over, by jobs of Spark that need the cores which a crew would hold."""
    if settings.master == INLINE:
        return InlineExecutor()
    from penstock.spark.choice import executor_on  # imported late: the inline engine must not wait for Spark
    from penstock.spark.session import spark_context

    return executor_on(spark_context(settings.master), settings.exchange == "direct" and not handed_over)


@dataclass(frozen=True)
class _Folder:
    """`private`: nothing else may lie in it but what is `at_home` there."""

    what: str
    given: Path
    private: bool = False
    at_home: bool = False

    @property
    def path(self) -> Path:
        return Path(os.path.realpath(self.given))

    def holds(self, other: _Folder) -> bool:
        """Whether a reader of this folder, or its collection, would come upon the other one."""
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
        """The sources that would read what the query itself writes, each with the folder that it would read."""
        for source in self.query.sources:
            if isinstance(source.connector, ListingConnector):
                for folder in self.folders:
                    names = _OF_A_CHECKPOINT if folder.private else ("e000000000001-x.parquet", "e000000000001-x.arrow")
                    if any(source.connector.would_list(str(folder.path / name)) for name in names):
                        yield source.name, folder


def _check_apart(footprints: Sequence[_Footprint]) -> None:
    """Refuse queries of which one folder lies in another, or whose sources would read what they write."""
    caches = {one.settings.cache for one in footprints} - {"", "executor"}  # queries may share one
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
        hint="give each a folder of its own, none inside another",
    )


def _read_back(source: str, folder: _Folder) -> ConfigError:
    return ConfigError(
        f"source `{source}` would read what the query writes itself",
        detail=f"its files may lie in {_shown(folder)}",
        hint="give each a folder of its own, none inside another",
    )


def _shown(folder: _Folder) -> str:
    """A folder as it was written, and where that leads if it is somewhere else."""
    given = os.path.abspath(folder.given)
    return f"{folder.what}: {given}" if given == str(folder.path) else f"{folder.what}: {given}, which is {folder.path}"
