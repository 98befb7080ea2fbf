"""The draft of a directory: what decisions of a round have changed so far, while they are applied one by one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from penstock.balance.decisions import Change, CleanUp, Gather, Merge, Move, Park, Scale, SplitGroup, Spread
from penstock.balance.stats import FloatArray, IntArray, RoundStats
from penstock.state.directory import Directory, Group


@dataclass(frozen=True, eq=False)
class DraftDirectory:
    """The directory and the load of sites while decisions are applied one by one. `away` maps groups to their new site
    where it differs from `known`: the directory is not rebuilt for every move. `cooldown_until` maps a group to the
    round before which it must not move, `single` are the groups known to have one key, `moved` counts the bytes that
    changed site in this round. `parking` and `cleaning` are the groups that are parked and cleaned up in this round,
    `spilling` the sites that park, `receiving` those that receive a group. Invariant: `held` is the bytes of active
    state at each site of the directory, without what is parked, `waiting` the pending rows."""

    known: Directory
    stats: RoundStats
    number: int
    held: FloatArray
    waiting: FloatArray
    cooldown_until: Mapping[Group, int] = field(default_factory=dict)
    single: frozenset[Group] = frozenset()
    moved: int = 0
    away: Mapping[Group, int] = field(default_factory=dict)
    parking: frozenset[Group] = frozenset()
    cleaning: frozenset[Group] = frozenset()
    spilling: frozenset[int] = frozenset()
    receiving: frozenset[int] = frozenset()

    @cached_property
    def directory(self) -> Directory:
        """Return the directory with all changes applied."""
        return self.known.with_homes(self.away) if self.away else self.known

    def home(self, group: Group) -> int | None:
        """Return the site of a group; None if there is no such group."""
        return self.away[group] if group in self.away else home_of(self.known, group)

    def burden(self, group: Group) -> tuple[int, int]:
        """Return the bytes of active state and the pending rows of a group, as they were in the round."""
        loads = self.stats.loads
        return self._of_group(group, loads.state_bytes), self._of_group(group, loads.pending)

    def parked(self, group: Group) -> int:
        """Return the bytes of a group that were parked before this round, which move with it for free."""
        return self._of_group(group, self.stats.loads.parked_bytes)

    def parks(self, group: Group) -> bool:
        """Return whether state of a group is parked in this round."""
        return any(_overlap(group, known) for known in self.parking)

    def cleans_up(self, group: Group) -> bool:
        """Return whether state of a group is cleaned up in this round."""
        return any(_overlap(group, known) for known in self.cleaning)

    def _of_group(self, group: Group, counts: IntArray) -> int:
        """Return the entry of a group in `counts`, given per group of the round. A group that did not exist in the
        round is estimated: split off, it has an even part of its ancestor; merged, the sum of its parts."""
        known = self.stats.directory
        first, last = known.overlapping(group)
        younger = max(0, group.depth - known.groups[first].depth)
        if younger or last == first + 1:
            return int(counts[first]) >> younger
        return int(counts[first:last].sum())

    def after(self, cool_down: int, change: Change) -> DraftDirectory:
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
                    cooldown_until={**self.cooldown_until, group: self.number + 1 + cool_down},
                    moved=self.moved + state,
                    receiving=self.receiving | {target},
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
                return replace(after, held=held + after._newly_active(), waiting=waiting)
            case Park(group):
                return self._after_parking(group)
            case CleanUp(group):
                after = replace(self, cleaning=self.cleaning | {group})
                return replace(after, held=_added(self.held, self._site(group), self.parked(group)))
            case Spread() | Gather():
                return self._under(change, cooldown_until=self.cooldown_until)

    def _after_parking(self, group: Group) -> DraftDirectory:
        site = self._site(group)
        return replace(
            self,
            held=_added(self.held, site, -self.burden(group)[0]),
            parking=self.parking | {group},
            spilling=self.spilling | {site},
        )

    def _newly_active(self) -> FloatArray:
        """Return the bytes at each site that became active in this round, less those that were parked."""
        grown = np.zeros(self.directory.sites)
        for group in self.parking:
            grown[self._site(group)] -= self.burden(group)[0]
        for group in self.cleaning:
            grown[self._site(group)] += self.parked(group)
        return grown

    def _site(self, group: Group) -> int:
        """Return the site of a group that exists, or of its first part if it was split in this round."""
        return self.away.get(group, self.known.home_at(group.low))

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


def draft_of(
    stats: RoundStats, number: int, cooldown_until: Mapping[Group, int], single: frozenset[Group]
) -> DraftDirectory:
    """Return the state at the end of a round, before any decision is applied. Expired cooldowns are dropped."""
    loads, live = stats.loads, {group: until for group, until in cooldown_until.items() if until > number}
    held, waiting = stats.held, stats.of_sites(loads.pending)
    return DraftDirectory(stats.directory, stats, number, held, waiting, live, single)


def _shifted(stats: FloatArray, source: int, target: int, amount: int) -> FloatArray:
    """Return a copy with `amount` moved from one site to another."""
    return _added(_added(stats, source, -amount), target, amount)


def _added(stats: FloatArray, site: int, amount: int) -> FloatArray:
    """Return a copy with `amount` more at a site."""
    grown = stats.copy()
    grown[site] += amount
    return grown


def _overlap(one: Group, other: Group) -> bool:
    """Return whether two groups have hashes in common: then one is a part of the other."""
    common = min(one.depth, other.depth)
    return one.prefix >> (one.depth - common) == other.prefix >> (other.depth - common)


def _inherited_cooldowns(at: DraftDirectory, heirs: Mapping[Group, int]) -> dict[Group, int]:
    """Return the cooldowns with those of the groups that replace others."""
    return {**at.cooldown_until, **{group: until for group, until in heirs.items() if until}}


def home_of(directory: Directory, group: Group) -> int | None:
    """Return the site of a group; None if there is no such group."""
    try:
        return directory.home(group)
    except KeyError:
        return None
