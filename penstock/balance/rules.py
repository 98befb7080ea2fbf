"""The rules that every decision keeps, whichever policy made it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from penstock.balance.decisions import Change, Decision, Merge, Move, Scale, Split
from penstock.balance.round import Counts, Round
from penstock.state.directory import Directory, Group

MOST_DEPTH = 48  # a group of so long a prefix holds one key, or next to nothing
MEGABYTE = 1 << 20


@dataclass(frozen=True)
class Rules:
    """`cool_down`: for so many rounds a group stays where it was moved. `budget`: the bytes of state that may get
    another home in a round. `least_sites` and `most_sites` bound the number of sites that policies may choose."""

    cool_down: int = 2
    budget: int = 256 * MEGABYTE
    least_sites: int = 1
    most_sites: int = 1


@dataclass(frozen=True)
class Standing:
    """Where things are while decisions are carried out one by one. `settled` says until which round a group stays;
    `single` are groups of one key, as far as is known; `moved` is the bytes that got another home in this round."""

    directory: Directory
    figures: Round
    number: int
    settled: Mapping[Group, int] = field(default_factory=dict)
    single: frozenset[Group] = frozenset()
    moved: int = 0

    def of_group(self, group: Group, counts: Counts) -> int:
        """A figure of a group that may be younger than the round: half of what it was split from, or all of what was
        merged into it."""
        known = self.figures.directory
        inside = [n for n, other in _overlapping(known, group) if other.depth >= group.depth]
        if inside:
            return int(counts[inside].sum())
        (place, whole), *_ = _overlapping(known, group)
        return int(counts[place]) >> (group.depth - whole.depth)

    def of_site(self, site: int, counts: Counts) -> int:
        """What a site would hold by now."""
        mine = [group for group, home in zip(self.directory.groups, self.directory.homes, strict=True) if home == site]
        if self.directory is self.figures.directory:
            return int(self.figures.of_sites(counts)[site])
        return sum(self.of_group(group, counts) for group in mine)


def impossible(directory: Directory, change: Change) -> str | None:
    """Why a directory cannot be changed in that way; None if it can."""
    match change:
        case Move(group, source, target):
            return _impossible_move(directory, _home(directory, group), source, target)
        case Split(group):
            return "there is no such group" if _home(directory, group) is None else None
        case Merge(group):
            homes = {_home(directory, half) for half in group.halves}
            if None in homes:
                return "its halves are not there"
            return "its halves live at different sites" if len(homes) > 1 else None
        case Scale(sites):
            return "there must be a site" if sites < 1 else None


def _impossible_move(directory: Directory, home: int | None, source: int, target: int) -> str | None:
    if home is None:
        return "there is no such group"
    if home != source:
        return f"the group lives at site {home}"
    if not 0 <= target < directory.sites:
        return f"there are {directory.sites} sites"
    return "it lives there already" if target == home else None


def broken_rule(rules: Rules, at: Standing, decision: Decision) -> str | None:
    """The rule that a decision would break now; None if it breaks none."""
    if (why := impossible(at.directory, decision.change)) is not None:
        return why
    match decision.change:
        case Move(group) if at.number < at.settled.get(group, 0):
            return "it has been moved lately"
        case Move() as move:
            return _against_receiving(rules, at, move)
        case Split(group) if group in at.single or group.depth >= MOST_DEPTH:
            return "it is a group of one key"
        case Scale(sites) if sites == at.directory.sites:
            return "there are as many sites already"
        case Scale(sites) if not rules.least_sites <= sites <= rules.most_sites:
            return f"there may be {rules.least_sites} to {rules.most_sites} sites"
        case _:
            return None


def _against_receiving(rules: Rules, at: Standing, move: Move) -> str | None:
    loads, figures = at.figures.loads, at.figures
    state = at.of_group(move.group, loads.state_bytes)
    if at.moved and at.moved + state > rules.budget:  # one group may always move, or a large one never could
        return f"more than {rules.budget // MEGABYTE} MB of state would move in one round"
    if figures.memory and at.of_site(move.target, loads.state_bytes) + state > figures.memory:
        return f"the memory of site {move.target} would overflow"
    pending = at.of_group(move.group, loads.pending)
    if figures.capacity and pending and at.of_site(move.target, loads.pending) + pending > figures.capacity:
        return f"the buffer of site {move.target} would overflow"
    return None


def _home(directory: Directory, group: Group) -> int | None:
    try:
        return directory.homes[directory.place(group)]
    except KeyError:
        return None


def _overlapping(directory: Directory, group: Group) -> list[tuple[int, Group]]:
    """The groups of a directory that have hashes in common with one of another: itself, what it is part of, or what is
    part of it."""
    lows = np.asarray([known.range.low for known in directory.groups], dtype=np.uint64)
    first = int(np.searchsorted(lows, np.uint64(group.range.low), side="right")) - 1
    last = int(np.searchsorted(lows, np.uint64(group.range.high - 1), side="right"))
    return [(place, directory.groups[place]) for place in range(first, last)]
