"""Which folders a query writes to and reads from, and that none of them gets into another's way.

Rows of two outputs in one folder would be mixed, results inside a checkpoint would be collected, and a source that
reads what its query writes would never come to an end. All of that is found before anything runs; links are resolved.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from penstock.connectors.source import ListingConnector
from penstock.engine.driver.outputs import Outputs
from penstock.engine.driver.standing import rows_of
from penstock.errors import ConfigError
from penstock.plan.compile.subqueries import Query
from penstock.settings import Settings

_STAGING = "_penstock"
_OF_A_CHECKPOINT = ("query.json", "manifests/000000000000.json", "runs/e000000000001-x.arrow")


@dataclass(frozen=True)
class Folder:
    """`private`: nothing else may lie in it but what is `at_home` there."""

    what: str
    given: Path
    private: bool = False
    at_home: bool = False

    @property
    def path(self) -> Path:
        return Path(os.path.realpath(self.given))

    def holds(self, other: Folder) -> bool:
        """Whether a reader of this folder, or its collection, would come upon the other one."""
        if not other.path.is_relative_to(self.path):
            return False
        between = other.path.relative_to(self.path).parts
        if self.private:
            return not other.at_home
        return not any(name.startswith((".", "_")) for name in between) or between[0] == _STAGING


@dataclass(frozen=True)
class Footprint:
    """The folders of one query; `name` tells it from others that are started together."""

    query: Query
    settings: Settings
    checkpoint: Path
    name: str = ""

    @property
    def folders(self) -> list[Folder]:
        outputs = Outputs(self.query, self.settings, self.checkpoint).visible_folders()
        home = Path(os.path.realpath(self.checkpoint))
        return [
            Folder(self._of("the checkpoint"), self.checkpoint, private=True),
            *(
                Folder(self._of(f"the {rows_of(output)}"), path, at_home=Path(os.path.realpath(path)) == home / output)
                for output, path in outputs.items()
            ),
        ]

    def _of(self, what: str) -> str:
        return f"{what} of `{self.name}`" if self.name else what

    def read_back(self) -> Iterator[tuple[str, Folder]]:
        """The sources that would read what the query itself writes, each with the folder that it would read."""
        for source in self.query.sources:
            if isinstance(source.connector, ListingConnector):
                for folder in self.folders:
                    names = _OF_A_CHECKPOINT if folder.private else ("e000000000001-x.parquet", "e000000000001-x.arrow")
                    if any(source.connector.would_list(str(folder.path / name)) for name in names):
                        yield source.name, folder


def check_apart(footprints: Sequence[Footprint]) -> None:
    """Refuse queries of which one folder lies in another, or whose sources would read what they write."""
    caches = {one.settings.cache for one in footprints} - {"", "executor"}  # queries may share one
    folders = [Folder("the cache", Path(path), private=True) for path in sorted(caches)]
    folders += [folder for one in footprints for folder in one.folders]
    for one, other in combinations(folders, 2):
        if one.holds(other) or other.holds(one):
            raise _overlap(one, other)
    for footprint in footprints:
        for source, folder in footprint.read_back():
            raise _read_back(source, folder)


def _overlap(one: Folder, other: Folder) -> ConfigError:
    outer, inner = (one, other) if one.holds(other) else (other, one)
    where = "in the same folder as" if outer.path == inner.path else "inside the folder of"
    return ConfigError(
        f"{inner.what} would lie {where} {outer.what}",
        detail=f"{_shown(inner)}, and {_shown(outer)}",
        hint="give each a folder of its own, none inside another",
    )


def _read_back(source: str, folder: Folder) -> ConfigError:
    return ConfigError(
        f"source `{source}` would read what the query writes itself",
        detail=f"its files may lie in {_shown(folder)}",
        hint="give each a folder of its own, none inside another",
    )


def _shown(folder: Folder) -> str:
    """A folder as it was written, and where that leads if it is somewhere else."""
    given = os.path.abspath(folder.given)
    return f"{folder.what}: {given}" if given == str(folder.path) else f"{folder.what}: {given}, which is {folder.path}"
