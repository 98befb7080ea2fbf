"""What an experiment is, and what comes of one: a table, bars with their verdicts, pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

_QUICK_NOTE = (
    "A quick run: little data, some cases left out, one turn where turns are taken. It tries the method; its bars are "
    "those of the whole experiment, which is:"
)
Tell = Callable[[str], None]
Value = str | int | float | bool | None
Record = Mapping[str, Value]


@dataclass(frozen=True)
class Setting:
    """How experiments are run. `quick`: so little that only the method is tried, and the figures say nothing.
    `pictures` is a folder for plots (None: no plots). `cores` bind every system; `master` is Penstock's."""

    repeat: int = 3
    work: Path = Path("bench-work")
    quick: bool = False
    pictures: Path | None = None
    cores: int = 2
    master: str = "local[2]"
    tell: Tell = print

    def folder(self, name: str) -> Path:
        """A folder for the files of one experiment."""
        folder = self.work.absolute() / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


@dataclass(frozen=True)
class Bar:
    """A figure with the bound it is to keep."""

    what: str
    value: float
    kind: Literal["at most", "at least"]
    bound: float
    unit: str = "times"

    @property
    def reached(self) -> bool:
        return self.value <= self.bound if self.kind == "at most" else self.value >= self.bound


@dataclass(frozen=True)
class Column:
    """A column of an experiment's table: the key of its records, and how a number is written."""

    key: str
    heading: str
    form: str = ""

    def text(self, record: Record) -> str:
        match record.get(self.key):
            case None:
                return ""
            case bool(value):
                return "yes" if value else "NO"
            case value:
                return format(value, self.form)


@dataclass(frozen=True)
class Finding:
    """What was measured. `equal`: every result that was produced on the way was the batch answer."""

    records: tuple[Record, ...]
    bars: tuple[Bar, ...]
    equal: bool
    pictures: tuple[Path, ...] = ()

    @property
    def holds(self) -> bool:
        return self.equal and all(bar.reached for bar in self.bars)


@dataclass(frozen=True)
class Experiment:
    """A named measurement. `note` says what the figures are."""

    name: str
    title: str
    note: str
    columns: tuple[Column, ...]
    measure: Callable[[Setting], Finding]

    def as_run(self, quick: bool) -> Experiment:
        """The experiment with a note that tells of what was run: of a quick one, that it was not the whole."""
        return replace(self, note=f"{_QUICK_NOTE} {self.note}") if quick else self
