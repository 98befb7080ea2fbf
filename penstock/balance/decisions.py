"""Decisions: what a policy wants to change, why, and what it expects of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.state.directory import Directory, Group
from penstock.state.hot_keys import Cells


@dataclass(frozen=True)
class Move:
    """A group gets another home."""

    group: Group
    source: int
    target: int

    def __str__(self) -> str:
        return f"move {self.group} from site {self.source} to site {self.target}"

    def applied(self, directory: Directory) -> Directory:
        return directory.moved(self.group, self.target)


@dataclass(frozen=True)
class Split:
    """A group becomes two, at the same site."""

    group: Group

    def __str__(self) -> str:
        return f"split {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory.split(self.group)


@dataclass(frozen=True)
class Merge:
    """The two halves of `group` become one again. Both live at one site."""

    group: Group

    def __str__(self) -> str:
        return f"merge {self.group}"

    def applied(self, directory: Directory) -> Directory:
        return directory.merged(self.group)


@dataclass(frozen=True)
class Scale:
    """The subquery gets another number of sites."""

    sites: int

    def __str__(self) -> str:
        return f"scale to {self.sites} sites"

    def applied(self, directory: Directory) -> Directory:
        return directory.scaled(self.sites)


@dataclass(frozen=True)
class Spread:
    """The rows of one hash get cells at several sites: those of the port `cut` are dealt out, all others copied. What
    is there by now stays in the first cell, or is copied from there."""

    hash: int
    cut: int
    sites: tuple[int, ...]

    def __str__(self) -> str:
        return f"spread {self.hash:016x} over sites {', '.join(map(str, self.sites))}"

    def applied(self, directory: Directory) -> Directory:
        return directory.spread_over(Cells(self.hash, self.cut, self.sites))


@dataclass(frozen=True)
class Gather:
    """A hash that is spread is to live with its group again: once nothing of it is pending."""

    hash: int

    def __str__(self) -> str:
        return f"gather {self.hash:016x}"

    def applied(self, directory: Directory) -> Directory:
        return directory.gathering([self.hash])


Change = Move | Split | Merge | Scale | Spread | Gather


@dataclass(frozen=True)
class Decision:
    """`gain` is the part by which the policy expects the slowest site to get faster: 0.2 says that the work of a round
    takes a fifth less time. `cost` is the bytes of state that get another home."""

    change: Change
    reason: str
    gain: float = 0.0
    cost: int = 0


@dataclass(frozen=True)
class Refusal:
    """A decision that was not carried out, and the rule that it would have broken."""

    decision: Decision
    rule: str


@dataclass(frozen=True)
class Measured:
    """What the decisions of a round were expected to gain, and what they did."""

    predicted: float
    measured: float
