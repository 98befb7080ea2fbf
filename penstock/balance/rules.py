"""The rules that every decision must keep, whichever policy made it. Pure."""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

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
from penstock.balance.draft import DraftDirectory, home_of
from penstock.state.directory import Directory, Group
from penstock.state.hash_ranges import HASH_END
from penstock.state.hot_keys import too_wide
from penstock.units import MEGABYTE

MOST_DEPTH = 48  # bits: a group with a prefix this long holds one key, or next to nothing
PINNED = sys.maxsize  # end of the cooldown of a group that was moved by hand: never


@dataclass(frozen=True)
class Rules:
    """The limits of balancing. A moved group stays for `cool_down` rounds. At most `budget` bytes of state change site
    in a round. Policies may choose between `least_sites` and `most_sites` sites."""

    cool_down: int = 2
    budget: int = 256 * MEGABYTE
    least_sites: int = 1
    most_sites: int = 1


def impossible(directory: Directory, change: Change, may_cut: Collection[int] = ()) -> str | None:
    """Return why a change cannot be applied to a directory; None if it can. `may_cut` are the ports whose rows may be
    distributed among sites."""
    match change:
        case Move(group, source, target):
            return _impossible_move(directory, home_of(directory, group), source, target)
        case SplitGroup(group) | Park(group) | CleanUp(group):
            return "there is no such group" if home_of(directory, group) is None else None
        case Merge(group):
            homes = {home_of(directory, half) for half in group.halves}
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
            return _against_moving_parked(at, move) or _against_receiving(rules, at, move)
        case SplitGroup(group) if group in at.single or group.depth >= MOST_DEPTH:
            return "it is a group of one key"
        case Scale(sites) if sites == at.known.sites:
            return "there are as many sites already"
        case Scale(sites) if not rules.least_sites <= sites <= rules.most_sites:
            return f"only {rules.least_sites} to {rules.most_sites} sites are allowed"
        case Scale() as scale:
            return _against_scaling(at, at.after(rules.cool_down, scale))
        case Park(group):
            return _against_parking(at, group)
        case CleanUp(group):
            return _against_cleaning_up(at, group)
        case Spread(hash_) if _is_parked(at, hash_):
            return "state of its group is parked"
        case _:
            return None


def _against_moving_parked(at: DraftDirectory, move: Move) -> str | None:
    """Return the rule against moving and parking at once that a move breaks; None if it breaks none. State that was
    parked in an earlier round may move: only metadata does."""
    if at.parks(move.group):
        return "it is parked in this round"
    return f"site {move.target} parks state in this round" if move.target in at.spilling else None


def _against_parking(at: DraftDirectory, group: Group) -> str | None:
    """Return the rule that parking a group breaks; None if it breaks none."""
    (state, pending), home = at.burden(group), at.home(group)
    if not at.stats.may_park:
        return "this run does not park state"
    if not at.stats.memory:
        return "the state of a site is not bounded in this run"
    if pending:
        return "it has pending rows"
    if at.parks(group) or not state:
        return "it has no active state"
    if at.cleans_up(group):
        return "it is cleaned up in this round"
    if any(group.low <= cells.hash < group.range.high for cells in at.directory.spread):
        return "a key of it is spread"
    return f"site {home} receives state in this round" if home in at.receiving else None


def _is_parked(at: DraftDirectory, hash_: int) -> bool:
    """Return whether state of the group with this hash is parked, or will be."""
    group = at.directory.groups[at.directory.place_at(hash_)]
    return at.parks(group) or at.parked(group) > 0


def _against_cleaning_up(at: DraftDirectory, group: Group) -> str | None:
    """Return the rule that cleaning up a group breaks; None if it breaks none."""
    if at.parks(group):
        return "it is parked in this round"
    return None if at.parked(group) and not at.cleans_up(group) else "nothing of it is parked"


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
