"""One try of the damage campaign: a checkpoint at some moment, one damage to one of its files, and the outcome."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from penstock.checkpoint import manifest as manifests
from penstock.connectors.source import BAD_ROWS_SCHEMA
from penstock.errors import PenstockError
from penstock.storage.faults import FaultPoint, arm, disarm
from penstock.testing.rows import assert_same_rows
from penstock.testing.ways import Way
from tests.support.crashes import (
    Fault,
    Place,
    Scenario,
    assert_late_rows,
    launch,
    newest_manifest,
    published,
    run_until_death,
    seeded_scenario,
)
from tests.support.damage.forgeries import OF_MANIFESTS, OF_RUNS
from tests.support.damage.kinds import OF_FILES, OF_FOLDERS, Damage, NotApplicable

NAMED, HARMLESS, NOTHING = "named", "harmless", "nothing to damage"
SILENT, UNEXPLAINED, TRACE, HANG, CRASH = "silent", "unexplained", "trace", "hang", "crash"
FAILURES = (SILENT, UNEXPLAINED, TRACE, HANG, CRASH)
MOMENTS = ("between runs", "before publishing", "while running")
SCENARIOS: tuple[tuple[str | None, dict[str, object]], ...] = (
    (None, {}),
    ("left join", {"items": 1, "item_rows": 3}),
    ("sessions", {"order": "in"}),
    ("distinct", {"items": 2, "item_rows": 5}),
)
_EPOCHS = (4, 3, 5, 2)  # committed before the damage: the first of these with most kinds of staged files
_CACHE, _WAY = "cache", Way(rows_per_epoch=1)  # every batch is an epoch
Find = Callable[[Place], list[Path]]


def _inside(*parts: str) -> Find:
    """Return a function that finds files in a folder of the checkpoint by a pattern."""
    return lambda place: sorted(place.checkpoint.joinpath(*parts[:-1]).glob(parts[-1]))


def _staged(output: str) -> Find:
    def find(place: Place) -> list[Path]:
        folder = place.results if output == "results" else place.checkpoint / output
        return sorted(folder.rglob("_penstock/e*"))

    return find


def _runs_in_use(place: Place) -> list[Path]:
    return sorted(place.checkpoint / "runs" / name for name in newest_manifest(place.checkpoint).run_names())


def _request(place: Place) -> list[Path]:
    """Write a request, and return its file."""
    path = place.checkpoint / "control" / f"{'0' * 32}.request.json"
    path.write_text('{"kind":"scale","made":1e10,"wants":{"sites":1}}')
    return [path]


FILES: dict[str, tuple[Find, dict[str, Damage]]] = {
    "newest manifest": (lambda place: _inside("manifests", "*.json")(place)[::-1], OF_FILES | OF_MANIFESTS),
    "older manifest": (lambda place: _inside("manifests", "*.json")(place)[:-1], OF_FILES | OF_MANIFESTS),
    "run": (_runs_in_use, OF_FILES | OF_RUNS),
    "run in the cache": (lambda place: sorted((place.root / _CACHE).rglob("*.arrow*")), OF_FILES),
    "staged result": (_staged("results"), OF_FILES),
    "staged late rows": (_staged("late"), OF_FILES),
    "staged bad rows": (_staged("bad"), OF_FILES),
    "query.json": (_inside("query.json"), OF_FILES),
    "lock": (_inside("lock"), OF_FILES),
    "status": (_inside("control", "status.json"), OF_FILES),
    "request": (_request, OF_FILES),
    "owner of the results": (lambda place: sorted((place.results / "_penstock").glob("[!e]*")), OF_FILES),
    "owner of the bad rows": (lambda place: sorted((place.checkpoint / "bad/_penstock").glob("[!e]*")), OF_FILES),
    "folder of manifests": (_inside("manifests"), OF_FOLDERS),
    "folder of runs": (_inside("runs"), OF_FOLDERS),
    "folder of requests": (_inside("control"), OF_FOLDERS),
    "folder of the cache": (lambda place: [place.root / _CACHE], OF_FOLDERS),
    "staging folder": (lambda place: [place.results / "_penstock"], OF_FOLDERS),
    "staging folder of bad rows": (_inside("bad", "_penstock"), OF_FOLDERS),
}


@dataclass(frozen=True)
class Try:
    """A try: the kind of file, the damage and the moment; `number` makes it repeatable in other scenarios."""

    file: str
    damage: str
    moment: str
    number: int

    def __str__(self) -> str:
        return f"{self.file}, {self.damage}, {self.moment}, number {self.number}"


@dataclass(frozen=True)
class Tried:
    """The outcome of a try, and its detail."""

    outcome: str
    detail: str = ""


def all_tries(rounds: int = 1) -> list[Try]:
    """Return every combination of file, damage and moment, `rounds` times."""
    every = [(file, damage) for file, (_, damages) in FILES.items() for damage in damages]
    return [Try(f, d, m, n) for n in range(rounds) for f, d in every for m in MOMENTS]


class Trials:
    """Runs tries in a folder. The state of a scenario at a moment is made once and copied for every try, always to the
    same path, because a checkpoint stores the paths of its outputs."""

    def __init__(self, folder: Path, seed: object) -> None:
        self._folder, self._seed = folder, seed
        self._scenarios: dict[int, Scenario] = {}
        self._chosen: dict[int, int] = {}  # by scenario: the number of epochs before the damage

    def prepare(self, one: Try) -> None:
        """Make the state that the tries of a scenario share, if it does not exist yet."""
        number = self._random(one).randrange(len(SCENARIOS))
        self._epochs(number)
        if one.moment != MOMENTS[2]:
            self._kept(number, one.moment)

    def _random(self, one: Try) -> Random:
        return Random(f"{self._seed} {one}")

    def make(self, one: Try) -> Tried:
        """Run one try and return its outcome."""
        random = self._random(one)
        number = random.randrange(len(SCENARIOS))
        scenario, place = self._scenario(number), Place(self._folder / "place")
        kept = None if one.moment == MOMENTS[2] else self._kept(number, one.moment)
        self._epochs(number)
        shutil.rmtree(place.root, ignore_errors=True)
        if kept is not None:
            shutil.copytree(kept, place.root, symlinks=True)
        try:
            return self._made(one, number, scenario, place, random)
        except NotApplicable:
            return Tried(NOTHING)
        finally:
            disarm()

    def _made(self, one: Try, number: int, scenario: Scenario, place: Place, random: Random) -> Tried:
        if one.moment == MOMENTS[2]:
            point = FaultPoint.COMMITTED if one.file.startswith("staged") else FaultPoint.COLLECTED
            damaging = _Damaging(one, place, random)
            arm(point, self._epochs(number), damaging.do)
            tried = _run(scenario, place, number)
            if damaging.nothing or not damaging.done:
                raise NotApplicable
            return tried
        _Damaging(one, place, random).do()
        return _run(scenario, place, number)

    def _scenario(self, number: int) -> Scenario:
        if number not in self._scenarios:
            operator, _ = SCENARIOS[number]
            self._scenarios[number] = seeded_scenario(f"{self._seed} {number}", operator)
        return self._scenarios[number]

    def _kept(self, number: int, moment: str) -> Path:
        """Return a copy of the checkpoint and the results at a moment; make it on first use."""
        kept = self._folder / f"kept-{number}-{MOMENTS.index(moment)}"
        if not kept.exists():
            place = Place(self._folder / "place")
            point = FaultPoint.COMMITTED if moment == MOMENTS[1] else FaultPoint.COLLECTED
            assert self._run_up_to(number, place, Fault(point, self._epochs(number)))
            shutil.copytree(place.root, kept, symlinks=True)
            shutil.rmtree(place.root)
        return kept

    def _epochs(self, number: int) -> int:
        """Return after how many epochs a scenario is damaged."""
        if number not in self._chosen:
            self._chosen[number] = max(_EPOCHS, key=lambda epochs: self._kinds_staged(number, epochs))
        return self._chosen[number]

    def _kinds_staged(self, number: int, epochs: int) -> int:
        """Return for how many outputs the last of `epochs` epochs has rows; -1 if the scenario ends before."""
        place = Place(self._folder / "place")
        if not self._run_up_to(number, place, Fault(FaultPoint.COMMITTED, epochs)):
            return -1  # the scenario has fewer epochs
        newest = newest_manifest(place.checkpoint)
        if newest.finished:
            return -1  # damage after the last epoch of a run would never be read
        return len({file.output for file in newest.staged})

    def _run_up_to(self, number: int, place: Place, fault: Fault) -> bool:
        """Run a scenario until a fault; return whether the fault was reached."""
        shutil.rmtree(place.root, ignore_errors=True)
        return bool(run_until_death(self._scenario(number), place, _WAY, fault, **_options(number, place)))


@dataclass
class _Damaging:
    """Applies the damage of a try; `nothing` is set if there was nothing to damage."""

    one: Try
    place: Place
    random: Random
    done: bool = False
    nothing: bool = False

    def do(self) -> None:
        """Damage one file of the kind. During a run, errors of the harness must not look like errors of the run."""
        self.done = True
        find, damages = FILES[self.one.file]
        found = [path for path in find(self.place) if os.path.lexists(path)]
        if not found:
            self.nothing = True
        elif self.one.moment == MOMENTS[2]:
            try:
                self._damage(damages, found)
            except NotApplicable:
                self.nothing = True
        else:
            return self._damage(damages, found)
        if self.nothing and self.one.moment != MOMENTS[2]:
            raise NotApplicable

    def _damage(self, damages: dict[str, Damage], found: list[Path]) -> None:
        newest = self.one.file == "newest manifest"
        damages[self.one.damage](found[0] if newest else self.random.choice(found), found, self.random)


def _options(number: int, place: Place) -> dict[str, object]:
    settings = SCENARIOS[number][1]
    return {**settings, "cache": str(place.root / _CACHE)} if number % 2 else dict(settings)


def _run(scenario: Scenario, place: Place, number: int) -> Tried:
    """Run to the end of the input, and classify the outcome."""
    try:
        launch(scenario, place, _WAY, **_options(number, place)).wait()
    except PenstockError as error:
        whole = error.what and error.detail and error.hint and "Traceback" not in str(error)
        return Tried(NAMED if whole else UNEXPLAINED, str(error))
    except Exception:
        return Tried(TRACE, traceback.format_exc())
    try:
        assert_answer(scenario, place)
    except Exception as error:  # also if the published files cannot be read
        return Tried(SILENT, f"{type(error).__name__}: {error}"[:2000])
    return Tried(HARMLESS)


def assert_answer(scenario: Scenario, place: Place) -> None:
    """Check that the published rows are the batch answer: results, late rows and bad rows."""
    assert manifests.epochs(place.checkpoint / "manifests"), "the checkpoint has no manifest"
    assert_same_rows(published(place.results, scenario.stream.schema), scenario.results, "results")
    assert_late_rows(scenario, place)
    bad = published(place.checkpoint / "bad", BAD_ROWS_SCHEMA)
    assert bad.num_rows == len(scenario.bad), f"{bad.num_rows} bad rows instead of {len(scenario.bad)}"
