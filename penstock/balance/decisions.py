"""Decisions: the changes that a policy wants, of a directory or of what is parked, each with its reason, expected gain
and cost. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.state.directory import Directory, Group
from penstock.state.hot_keys import Cells


@dataclass(frozen=True)
class Move:
    """Assign a group to another site."""

    group: Group
    source: int
    target: int

    def __str__(self) -> str:
        return f"move {self.group} from site {self.source} to site {self.target}"

    def applied(self, directory: Directory) -> Directory:
        return directory.moved(self.group, self.target)


@dataclass(frozen=True)
class SplitGroup:
    """Split a group into its two halves, which stay at its site."""

    group: Group

    def __str__(self) -> str:
        return f"split {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory.split(self.group)


@dataclass(frozen=True)
class Merge:
    """Merge the two halves of `group` into one. Both halves must be at the same site."""

    group: Group

    def __str__(self) -> str:
        return f"merge {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory.merged(self.group)


@dataclass(frozen=True)
class Scale:
    """Change the number of sites of the subquery."""

    sites: int

    def __str__(self) -> str:
        return f"scale to {self.sites} sites"

    def applied(self, directory: Directory) -> Directory:
        return directory.scaled(self.sites)


@dataclass(frozen=True)
class Spread:
    """Spread the rows of one hash over cells at several sites. New rows of the port `cut` are distributed among the
    cells, rows of other ports are copied to all of them. Existing state stays in the first cell, or is copied from
    there."""

    hash: int
    cut: int
    sites: tuple[int, ...]

    def __str__(self) -> str:
        return f"spread {self.hash:016x} over sites {', '.join(map(str, self.sites))}"

    def applied(self, directory: Directory) -> Directory:
        return directory.spread_over(Cells(self.hash, self.cut, self.sites))


@dataclass(frozen=True)
class Gather:
    """Return a spread hash to its group, as soon as none of its rows is pending."""

    hash: int

    def __str__(self) -> str:
        return f"gather {self.hash:016x}"

    def applied(self, directory: Directory) -> Directory:
        return directory.gathering([self.hash])


@dataclass(frozen=True)
class Park:
    """Park the state of a group: new rows are worked on without it until it is cleaned up."""

    group: Group

    def __str__(self) -> str:
        return f"park {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory


@dataclass(frozen=True)
class CleanUp:
    """Produce the results that the parked state of a group still owes, and use it as state again."""

    group: Group

    def __str__(self) -> str:
        return f"clean up {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory


Change = Move | SplitGroup | Merge | Scale | Spread | Gather | Park | CleanUp


@dataclass(frozen=True)
class Decision:
    """A change with its reason. `gain` is the fraction by which the slowest site is expected to get faster: 0.2 means
    that the work of a round takes a fifth less time. `cost` is the bytes of state that move to another site, or that
    are parked."""

    change: Change
    reason: str
    gain: float = 0.0
    cost: int = 0


@dataclass(frozen=True)
class Refusal:
    """A decision that was not applied, and the rule that it would have broken."""

    decision: Decision
    rule: str


@dataclass(frozen=True)
class Measured:
    """The gain predicted for the decisions of a round, and the gain measured in the next round."""

    predicted: float
    measured: float
