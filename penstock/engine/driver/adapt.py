"""Adaptation: the controllers get the statistics of an epoch, and their decisions take effect in the directories of the
first epoch that is not routed yet."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from penstock.balance.controller import Controller, RoundOutcome
from penstock.balance.decisions import Change, CleanUp, Move, Park, Scale
from penstock.balance.policies.even import Even
from penstock.balance.rules import PINNED, Rules, impossible
from penstock.balance.stats import RoundStats
from penstock.engine.driver.gathering import gathering_for, with_ready_gathered
from penstock.engine.driver.grids import wants_grid, with_wanted_grid
from penstock.engine.driver.move_state import bytes_in, changed_hands
from penstock.errors import PolicyError
from penstock.events import ChangeMeasured, ChangeRefused, DirectoryChanged, Event, Rebalanced
from penstock.operators.protocol import Operator, may_cut
from penstock.state.directory import Directory, Group
from penstock.state.hash_ranges import HashRange, coalesced, remaining
from penstock.state.hot_keys import too_wide
from penstock.state.model import SubqueryState
from penstock.user_code import raising

BY_HAND = "by hand"
LOOK = 1.0  # seconds of statistics needed to even out sites: in a short epoch, a site may be slowest by chance


@dataclass(frozen=True)
class Wanted:
    """A number of sites that some subqueries are to get as soon as possible."""

    subqueries: frozenset[int]
    sites: int


class Adaptation:
    """The directories of all subqueries and the controllers that change them.

    Invariant: `directories[s]` is the directory of subquery s in the next epoch that is planned. There is one
    controller per subquery, or none if directories change only on request. `asked_clean_up[s]` are the ranges of
    subquery s to clean up, if anything is parked there; they neither overlap nor touch.
    """

    def __init__(
        self,
        directories: Sequence[Directory],
        operators: Sequence[Operator],
        controllers: Sequence[Controller],
        emit: Callable[[Event], None],
    ) -> None:
        self.directories, self._operators = tuple(directories), operators
        self._controllers = dict(enumerate(controllers))
        self._once: dict[int, Controller] = {}  # for one rebalance on request
        self._wanted: list[Wanted] = []  # requested, and not possible yet
        self._emit, self._warm = emit, False
        self._to_park = [list[HashRange]() for _ in directories]
        self.asked_clean_up = [list[HashRange]() for _ in directories]

    @property
    def wants_statistics(self) -> bool:
        """Return whether the sites should report statistics in the next epoch."""
        return bool(self._once) or any(controller.wants_statistics for controller in self._controllers.values())

    def skip(self, seconds: float) -> None:
        """Advance the controllers after an epoch without statistics."""
        self._warm = True
        self._controllers = {number: known.skip(seconds) for number, known in self._controllers.items()}

    def observe(self, epoch: int, stats: Sequence[RoundStats]) -> None:
        """Feed one epoch's statistics to the controllers. Ignored: the first epoch (warm-up), and epochs that ran under
        a directory which is about to be replaced."""
        if not self._warm:
            self._warm = True
            return
        for number, controller in {**self._controllers, **self._once}.items():
            if stats[number].directory != self.directories[number]:
                continue
            observed = controller.observe(stats[number])
            if number in self._once:
                self._once[number] = observed
                self._rebalance_if_due(epoch, number, observed)
                continue
            if observed.due:
                observed = self._decide(epoch, number, observed)[0]
            self._controllers[number] = observed

    def _decide(self, epoch: int, subquery: int, controller: Controller) -> tuple[Controller, RoundOutcome]:
        """Let a controller decide, change the directory accordingly, and report the outcome."""
        later, outcome = _asked_to_decide(controller)
        self._change(subquery, outcome.directory)
        for decision in outcome.accepted:
            self._note_parking(subquery, decision.change)
        self._report_outcome(epoch, subquery, outcome)
        return later, outcome

    def _rebalance_if_due(self, epoch: int, subquery: int, controller: Controller) -> None:
        """Carry out a requested rebalance if enough statistics have been collected."""
        if controller.stats is None or not controller.due:
            return
        del self._once[subquery]
        _, outcome = self._decide(epoch, subquery, controller)
        busy = controller.stats.busy
        apart = float(1 - busy.min() / busy.max()) if busy.any() else 0.0
        self._emit(Rebalanced(epoch, subquery, len(outcome.accepted), len(outcome.refused), apart))

    def rebalance(self, subquery: int) -> None:
        """Even out the sites of a subquery on request, whatever its policy is: after the next epoch, or after a few if
        they are short. Statistics of the current round count, too. Unpins groups that were moved by hand, and uses no
        inertia, so that a site that seems slow is treated as slow at once."""
        self._change_cooldowns(subquery, _without_pins)
        known = self._controllers.get(subquery)
        length, stats = (min(known.length, LOOK), known.stats) if known else (LOOK, None)
        self._once[subquery] = Controller(Even(inertia=0.0), Rules(cool_down=0), length, stats)

    def by_hand(self, epoch: int, subquery: int, change: Change, state: SubqueryState) -> str | None:
        """Carry out a change that a user requests. Return the reason if it is impossible, otherwise None. A group that
        was moved in this way is pinned: no policy moves it until a rebalance is requested."""
        directory = self.directories[subquery]
        if (why := impossible(directory, change, may_cut(self._operators[subquery]))) is not None:
            self._emit(ChangeRefused(epoch, subquery, str(change), BY_HAND, why))
            if isinstance(change, Scale):
                self._change(subquery, gathering_for(directory, change.sites))
            return why
        self._change(subquery, change.applied(directory))
        self._note_parking(subquery, change)
        after = self.directories[subquery]
        moved = [change.group.range] if isinstance(change, Move) else changed_hands(directory, after)
        cost = bytes_in(state, moved)
        self._emit(DirectoryChanged(epoch, subquery, str(change), BY_HAND, 0.0, cost))
        if isinstance(change, Move):
            self._change_cooldowns(subquery, lambda until: {**until, change.group: PINNED})
        return None

    def _note_parking(self, subquery: int, change: Change) -> None:
        """Remember what to park in the next epoch, and what to clean up from then on."""
        match change:
            case Park(group):
                self._to_park[subquery].append(group.range)
                self.asked_clean_up[subquery] = remaining(self.asked_clean_up[subquery], [group.range])
            case CleanUp(group):
                self._to_park[subquery] = remaining(coalesced(self._to_park[subquery]), [group.range])
                self.asked_clean_up[subquery] = coalesced([*self.asked_clean_up[subquery], group.range])

    def take_parks(self) -> list[list[HashRange]]:
        """Return the ranges of each subquery to park in the next epoch, once."""
        wanted, self._to_park = self._to_park, [[] for _ in self._to_park]
        return wanted

    def _change_cooldowns(self, subquery: int, changed: Callable[[Mapping[Group, int]], Mapping[Group, int]]) -> None:
        """Change which groups of a subquery may not be moved, and until when."""
        if (known := self._controllers.get(subquery)) is not None:
            self._controllers[subquery] = replace(known, cooldown_until=changed(known.cooldown_until))

    def scale(self, epoch: int, subqueries: Sequence[int], sites: int, states: Sequence[SubqueryState]) -> bool:
        """Give some subqueries a number of sites, all or none, on request. Return whether they have it; otherwise they
        get it as soon as possible, unless another number is requested before."""
        self._wanted = [wanted for wanted in self._wanted if wanted.subqueries.isdisjoint(subqueries)]
        done = self.scaled(epoch, subqueries, sites, states)
        if not done:
            self._wanted.append(Wanted(frozenset(subqueries), sites))
        return done

    def scaled(self, epoch: int, subqueries: Collection[int], sites: int, states: Sequence[SubqueryState]) -> bool:
        """Give subqueries a number of sites, unless hashes are spread over more of them: these are marked for
        gathering. Return whether the subqueries have that number now."""
        for number in subqueries:
            self._change(number, gathering_for(self.directories[number], sites))
        possible = not any(too_wide(self.directories[number].spread, sites) for number in subqueries)
        for number in sorted(subqueries):
            if possible and self.directories[number].sites != sites:
                self.by_hand(epoch, number, Scale(sites), states[number])
        return possible

    def apply_due_changes(self, epoch: int, states: Sequence[SubqueryState]) -> None:
        """Gather hashes that are marked for it and ready, carry out requests that waited for it, and let grids follow
        the number of sites. Call it between two epochs, before the second one is routed."""
        for number, state in enumerate(states):
            self._change(number, with_ready_gathered(self.directories[number], state))
        self._wanted = [w for w in self._wanted if not self.scaled(epoch, w.subqueries, w.sites, states)]
        for number, (operator, state) in enumerate(zip(self._operators, states, strict=True)):
            self._change(number, with_wanted_grid(operator, self.directories[number], state))

    @property
    def has_due_changes(self) -> bool:
        """Return whether some hashes are still to be gathered, or a grid is to change. Whether that is possible is
        known only at the end of an epoch, so the next epoch must not be routed ahead."""
        gathering = any(cells.gathering for directory in self.directories for cells in directory.spread)
        return gathering or any(map(wants_grid, self._operators, self.directories))

    def _change(self, subquery: int, directory: Directory) -> None:
        if directory is not self.directories[subquery]:
            self.directories = (*self.directories[:subquery], directory, *self.directories[subquery + 1 :])

    def _report_outcome(self, epoch: int, subquery: int, outcome: RoundOutcome) -> None:
        """Report the measurements, the changes and the refusals of a round as events."""
        if (measured := outcome.measured) is not None:
            self._emit(ChangeMeasured(epoch, subquery, measured.predicted, measured.measured))
        for made in outcome.accepted:
            self._emit(DirectoryChanged(epoch, subquery, str(made.change), made.reason, made.gain, made.cost))
        for refused in outcome.refused:
            wanted = refused.decision
            self._emit(ChangeRefused(epoch, subquery, str(wanted.change), wanted.reason, refused.rule))


def _asked_to_decide(controller: Controller) -> tuple[Controller, RoundOutcome]:
    """Return the controller after its decision and the outcome; an error of a user's policy becomes a PolicyError."""
    hint = "fix it, or choose another policy, and restart the query: the checkpoint is intact"
    with raising(PolicyError, f"the policy `{controller.policy.name}` failed", hint):
        return controller.decide()


def _without_pins(cooldown_until: Mapping[Group, int]) -> Mapping[Group, int]:
    """Return the groups that may not be moved, without those pinned by hand."""
    return {group: until for group, until in cooldown_until.items() if until != PINNED}
