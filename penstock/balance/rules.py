"""The rules that every decision must keep, whichever policy made it. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from penstock.balance.decisions import (
    Change,
    CleanUp,
    Decision,
    Gather,
    Merge,
    Move,
    Park,
    Scale,
    SplitGroup,
    Spread,
)
from penstock.balance.stats import FloatArray, IntArray, RoundStats
from penstock.state.directory import Directory, Group
from penstock.state.hash_ranges import HASH_END
from penstock.state.hot_keys import too_wide

MOST_DEPTH = 48  # bits: a group with a prefix this long holds one key, or next to nothing
MEGABYTE = 1 << 20
PINNED = sys.maxsize  # end of the cooldown of a group that was moved by hand: never


@dataclass(frozen=True)
class Rules:
    """The limits of balancing. A moved group stays for `cool_down` rounds. At most `budget` bytes of state change site
    in a round. Policies may choose between `least_sites` and `most_sites` sites."""

    cool_down: int = 2
    budget: int = 256 * MEGABYTE
    least_sites: int = 1
    most_sites: int = 1


@dataclass(frozen=True, eq=False)
class DraftDirectory:
    """The directory and the load of sites while decisions are applied one by one. `away` maps groups to their new site
    where it differs from `known`: the directory is not rebuilt for every move. `cooldown_until` maps a group to the
    round before which it must not move, `single` are the groups known to have one key, `moved` counts the bytes that
    changed site in this round. Invariant: `held` is the bytes of state at each site of the directory, `waiting` the
    pending rows."""

    known: Directory
    stats: RoundStats
    number: int
    held: FloatArray
    waiting: FloatArray
    cooldown_until: Mapping[Group, int] = field(default_factory=dict)
    single: frozenset[Group] = frozenset()
    moved: int = 0
    away: Mapping[Group, int] = field(default_factory=dict)

    @cached_property
    def directory(self) -> Directory:
        """Return the directory with all changes applied."""
        return self.known.with_homes(self.away) if self.away else self.known

    def home(self, group: Group) -> int | None:
        """Return the site of a group; None if there is no such group."""
        return self.away[group] if group in self.away else _home(self.known, group)

    def burden(self, group: Group) -> tuple[int, int]:
        """Return the bytes of state and the pending rows of a group. A group that did not exist in the round is
        estimated: split off, it has an even part of its ancestor; merged, the sum of its parts."""
        known, loads = self.stats.directory, self.stats.loads
        first, last = known.overlapping(group)
        younger = max(0, group.depth - known.groups[first].depth)
        if younger or last == first + 1:
            return int(loads.state_bytes[first]) >> younger, int(loads.pending[first]) >> younger
        return int(loads.state_bytes[first:last].sum()), int(loads.pending[first:last].sum())

    def after(self, rules: Rules, change: Change) -> DraftDirectory:
        """Return the state after a change. Requires that the change breaks no rule."""
        loads = self.stats.loads
        match change:
            case Move(group, source, target):
                state, rows = self.burden(group)
                return replace(
                    self,
                    away={**self.away, group: target},
                    held=_shifted(self.held, source, target, state),
                    waiting=_shifted(self.waiting, source, target, rows),
                    cooldown_until={**self.cooldown_until, group: self.number + 1 + rules.cool_down},
                    moved=self.moved + state,
                )
            case SplitGroup(group):
                until = self.cooldown_until.get(group, 0)
                return self._under(
                    change, cooldown_until=_inherited_cooldowns(self, dict.fromkeys(group.halves, until))
                )
            case Merge(group):
                until = max(self.cooldown_until.get(half, 0) for half in group.halves)
                return self._under(change, cooldown_until=_inherited_cooldowns(self, {group: until}))
            case Scale():
                after = self._under(change, cooldown_until=self.cooldown_until)
                held, waiting = (after._at_sites(counts) for counts in (loads.state_bytes, loads.pending))
                return replace(after, held=held, waiting=waiting)
            case Park(group) | CleanUp(group):
                return self  # which state is parked is no matter of the directory
            case Spread() | Gather():
                return self._under(change, cooldown_until=self.cooldown_until)

    def _under(self, change: Change, cooldown_until: Mapping[Group, int]) -> DraftDirectory:
        return replace(self, known=change.applied(self.directory), away={}, cooldown_until=cooldown_until)

    def _at_sites(self, counts: IntArray) -> FloatArray:
        directory = self.directory
        weights = self._of_groups(directory, counts)
        return np.bincount(directory.home_of, weights=weights, minlength=directory.sites).astype(np.float64)

    def _of_groups(self, directory: Directory, counts: IntArray) -> IntArray:
        """Return `counts`, given per group of the round, for the groups of `directory`, estimated as in `burden`."""
        known = self.stats.directory
        first = np.searchsorted(known.lows, directory.lows, side="right") - 1
        before = np.searchsorted(known.lows, directory.lasts, side="right")
        added = np.concatenate(([0], np.cumsum(counts)))
        younger = np.maximum(directory.depths - known.depths[first], 0)
        return np.where(younger > 0, counts[first] >> younger, added[before] - added[first])


def standing(
    stats: RoundStats, number: int, cooldown_until: Mapping[Group, int], single: frozenset[Group]
) -> DraftDirectory:
    """Return the state at the end of a round, before any decision is applied. Expired cooldowns are dropped."""
    loads, live = stats.loads, {group: until for group, until in cooldown_until.items() if until > number}
    held, waiting = stats.of_sites(loads.state_bytes), stats.of_sites(loads.pending)
    return DraftDirectory(stats.directory, stats, number, held, waiting, live, single)


def _shifted(stats: FloatArray, source: int, target: int, amount: int) -> FloatArray:
    """Return a copy with `amount` moved from one site to another."""
    shifted = stats.copy()
    shifted[source] -= amount
    shifted[target] += amount
    return shifted


def _inherited_cooldowns(at: DraftDirectory, heirs: Mapping[Group, int]) -> dict[Group, int]:
    """Return the cooldowns with those of the groups that replace others."""
    return {**at.cooldown_until, **{group: until for group, until in heirs.items() if until}}


def impossible(directory: Directory, change: Change, may_cut: Collection[int] = ()) -> str | None:
    """Return why a change cannot be applied to a directory; None if it can. `may_cut` are the ports whose rows may be
    distributed among sites."""
    match change:
        case Move(group, source, target):
            return _impossible_move(directory, _home(directory, group), source, target)
        case SplitGroup(group) | Park(group) | CleanUp(group):
            return "there is no such group" if _home(directory, group) is None else None
        case Merge(group):
            homes = {_home(directory, half) for half in group.halves}
            if None in homes:
                return "its halves do not exist"
            return "its halves are at different sites" if len(homes) > 1 else None
        case Scale(sites):
            return impossible_scale(directory, sites)
        case Spread():
            return impossible_spread(directory, change, may_cut)
        case Gather(hash_):
            return impossible_gather(directory, hash_)


def _impossible_now(at: DraftDirectory, change: Change) -> str | None:
    """Return why a change cannot be applied after the changes so far; None if it can."""
    if isinstance(change, Move):
        return _impossible_move(at.known, at.home(change.group), change.source, change.target)
    return impossible(at.directory, change, at.stats.may_cut)


def _impossible_move(directory: Directory, home: int | None, source: int, target: int) -> str | None:
    if home is None:
        return "there is no such group"
    if home != source:
        return f"the group is at site {home}"
    if not 0 <= target < directory.sites:
        return f"there are {directory.sites} sites"
    return "it is at that site already" if target == home else None


def broken_rule(rules: Rules, at: DraftDirectory, decision: Decision) -> str | None:
    """Return the rule that a decision would break now; None if it breaks none."""
    if (why := _impossible_now(at, decision.change)) is not None:
        return why
    match decision.change:
        case Move(group) if at.number < at.cooldown_until.get(group, 0):
            return "it was moved by hand" if at.cooldown_until[group] == PINNED else "it was moved recently"
        case Move() as move:
            return _against_receiving(rules, at, move)
        case SplitGroup(group) if group in at.single or group.depth >= MOST_DEPTH:
            return "it is a group of one key"
        case Scale(sites) if sites == at.known.sites:
            return "there are as many sites already"
        case Scale(sites) if not rules.least_sites <= sites <= rules.most_sites:
            return f"only {rules.least_sites} to {rules.most_sites} sites are allowed"
        case Scale() as scale:
            return _against_scaling(at, at.after(rules, scale))
        case _:
            return None


def _against_receiving(rules: Rules, at: DraftDirectory, move: Move) -> str | None:
    """Return the rule about the load of the receiver that a move breaks, or the budget; None if it breaks none."""
    stats, (state, pending) = at.stats, at.burden(move.group)
    if at.moved and at.moved + state > rules.budget:  # the first group may always move, or a large one never could
        return f"more than {rules.budget // MEGABYTE} MB of state would move in one round"
    if stats.memory and state and _overflows(stats.memory, at.held[move.target] + state, at.held[move.source]):
        return f"the memory of site {move.target} would overflow"
    most = max(stats.capacity, at.waiting[move.source] - pending)  # if all are too full, the fuller may give
    if stats.capacity and pending and at.waiting[move.target] + pending > most:
        return f"the buffer of site {move.target} would overflow"
    return None


def _overflows(memory: int, received: float, giver: float) -> bool:
    """Return whether a receiver that would hold `received` bytes has too many. It may exceed its memory if the giver
    exceeds it more: if all sites are full, such a move brings the two closer together."""
    return memory < received and giver <= received


def _against_scaling(before: DraftDirectory, after: DraftDirectory) -> str | None:
    """Return the rule that a new number of sites breaks; None if it breaks none. A site must not get more than it has
    room for, unless some site has as much already: if all sites are too full, more sites are the remedy."""
    stats = before.stats
    for room, had, has, what in (
        (stats.memory, before.held, after.held, "memory"),
        (stats.capacity, before.waiting, after.waiting, "buffer"),
    ):
        if room and has.max() > max(room, had.max()):
            return f"the {what} of site {int(has.argmax())} would overflow"
    return None


def _home(directory: Directory, group: Group) -> int | None:
    """Return the site of a group; None if there is no such group."""
    try:
        return directory.home(group)
    except KeyError:
        return None


def impossible_spread(directory: Directory, change: Spread, may_cut: Collection[int]) -> str | None:
    """Return why a hash cannot be spread like this; None if it can."""
    if not 0 <= change.hash < HASH_END:
        return "there is no such hash"
    if change.cut not in may_cut:
        return "the rows of this input cannot be distributed"
    if len(set(change.sites)) < max(2, len(change.sites)):
        return "it needs at least two sites, each named once"
    if not all(0 <= site < directory.sites for site in change.sites):
        return f"there are {directory.sites} sites"
    return "it is spread already" if directory.cells_at(change.hash) is not None else None


def impossible_gather(directory: Directory, hash_: int) -> str | None:
    """Return why a hash cannot be gathered; None if it can."""
    cells = directory.cells_at(hash_)
    if cells is None:
        return "it is not spread"
    return "it is being gathered already" if cells.gathering else None


def impossible_scale(directory: Directory, sites: int) -> str | None:
    """Return why the number of sites cannot be `sites`; None if it can."""
    if sites < 1:
        return "at least one site is needed"
    wide = too_wide(directory.spread, sites)
    if not wide:
        return None
    return f"a key is spread over {len(wide[0].sites)} sites and must be gathered first"
