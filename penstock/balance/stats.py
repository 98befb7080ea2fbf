"""The statistics of a subquery over a round: those of its sites and groups, added up over the epochs. Pure.

A policy reads one `RoundStats` and nothing else, so its decisions can be tested with statistics written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.balance.keys import NO_CELLS, CellLoads, KeyLoad, heaviest
from penstock.state.directory import Directory

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Loads:
    """The statistics of groups, without hashes that are spread over cells. Invariant: all arrays have one entry per
    group, in directory order.

    `rows` arrived, `heaviest` of them with the group's heaviest key. `done` rows were processed, including rows that
    arrived earlier; they and the closing of windows took `seconds`, an estimate: the time of a work item is divided
    among its groups by their rows. `output` is the rows that the operator produced, before the stateless steps behind
    it, each counted at the group of its hash. `state_rows` and `state_bytes` are the group's state, `pending` and
    `pending_bytes` its unprocessed rows, `held_bytes` the rows that an ordered merger holds back, `parked_bytes` the
    state that is parked, which `state_bytes` does not contain, all at the end of the round; the bytes are those of the
    files, with rows that have expired since they were written. `last_used` is the last epoch that had statistics and in
    which a row of the group arrived (0: none since the run started).
    """

    rows: IntArray
    heaviest: IntArray
    seconds: FloatArray
    state_rows: IntArray
    state_bytes: IntArray
    pending: IntArray
    last_used: IntArray
    done: IntArray
    output: IntArray
    pending_bytes: IntArray
    held_bytes: IntArray
    parked_bytes: IntArray

    @staticmethod
    def none(groups: int) -> Loads:
        """Return the statistics of groups without rows, from which others can be made by `dataclasses.replace`."""
        zeros = {field.name: np.zeros(groups, np.int64) for field in fields(Loads) if field.name != "seconds"}
        return Loads(**zeros, seconds=np.zeros(groups))

    def then(self, later: Loads) -> Loads:
        """Add the statistics of the next epoch."""
        return replace(
            later,
            rows=self.rows + later.rows,
            heaviest=self.heaviest + later.heaviest,
            seconds=self.seconds + later.seconds,
            done=self.done + later.done,
            output=self.output + later.output,
            last_used=np.maximum(self.last_used, later.last_used),
        )


@dataclass(frozen=True)
class MemoryUse:
    """The memory of a site in bytes. `used` is what the site holds: state, pending and held rows, as in their files.
    `resident` is what its worker has in memory, for all of its sites and with the parts of files that are mapped,
    `limit` what the worker may use, by its machine or control group (0: unknown)."""

    used: int
    resident: int = 0
    limit: int = 0


@dataclass(frozen=True, eq=False)
class SiteStatistics:
    """The statistics that one site reports after an epoch: its groups in directory order, the heaviest keys in them,
    its cells, and its memory."""

    load: Loads
    keys: tuple[KeyLoad, ...]
    cells: CellLoads
    memory: MemoryUse


@dataclass(frozen=True, eq=False)
class RoundStats:
    """The statistics of one subquery over `epochs` epochs that took `seconds` in total. The round had `rested` seconds
    more, without statistics.

    Invariant: `loads` has one entry per group of the directory, the arrays below it one per site. `busy` is the seconds
    that a site worked, `share` the seconds that it could have worked: the time its level took in each epoch, until the
    last site was done or the deadline came, and the pauses between epochs. `backlog` is the mean number of pending rows
    at the end of an epoch and `capacity` its limit; `memory` is the limit of a site's bytes of active state,
    `least_sites` and `most_sites` are those of the number of sites, `budget` that of the bytes of state that may move
    at the end of the round (0: unlimited). `seconds_per_byte` is how long a site waits for each byte of state that
    moves to it (0: state is read in place). `in_cooldown` is a mask of the groups in cooldown (None: none is).
    `may_cut` are the ports whose rows may be distributed among sites. `keys` are the heaviest keys of groups, `cells`
    the statistics of spread hashes. `site_memory` is the memory of each site at the end of the round (empty: unknown).
    `may_park` is True if state that exceeds `memory` may be parked.
    """

    directory: Directory
    epochs: int
    seconds: float
    loads: Loads
    busy: FloatArray
    share: FloatArray
    backlog: FloatArray
    capacity: int = 0
    memory: int = 0
    least_sites: int = 1
    most_sites: int = 0
    budget: int = 0
    seconds_per_byte: float = 0.0
    rested: float = 0.0
    in_cooldown: BoolArray | None = None
    may_cut: tuple[int, ...] = ()
    keys: tuple[KeyLoad, ...] = ()
    cells: CellLoads = NO_CELLS
    site_memory: tuple[MemoryUse, ...] = ()
    may_park: bool = False

    def then(self, later: RoundStats) -> RoundStats:
        """Add one more epoch, under the same directory."""
        epochs = self.epochs + later.epochs
        return replace(
            later,
            epochs=epochs,
            seconds=self.seconds + later.seconds,
            loads=self.loads.then(later.loads),
            busy=self.busy + later.busy,
            share=self.share + later.share,
            backlog=(self.backlog * self.epochs + later.backlog * later.epochs) / epochs,
            keys=heaviest((*self.keys, *later.keys)),
            cells=self.cells.then(later.cells),
        )

    def remembering(self, earlier: RoundStats) -> RoundStats:
        """Return these statistics with what is known from earlier ones: the last use of groups that were not used
        since. The directory may have changed: both halves of a group inherit its last use, and a merged group has the
        later one of its halves."""
        places = np.searchsorted(earlier.directory.lows, self.directory.lows, side="right") - 1
        # Groups are prefixes, so an earlier group is split, is merged, or is the same. Of a split group all places are
        # equal, and reduceat then takes the one value.
        known = np.maximum.reduceat(earlier.loads.last_used, places)
        return replace(self, loads=replace(self.loads, last_used=np.maximum(self.loads.last_used, known)))

    @cached_property
    def homes(self) -> npt.NDArray[np.int64]:
        """Return the site of each group."""
        return self.directory.home_of

    @cached_property
    def stays(self) -> BoolArray:
        """Return a mask of the groups that must not move: a move of them would be refused."""
        return np.zeros(len(self.homes), np.bool_) if self.in_cooldown is None else self.in_cooldown

    @cached_property
    def utilisation(self) -> FloatArray:
        """Return the fraction of its share that each site was busy."""
        return _parts(self.busy, self.share)

    @cached_property
    def occupancy(self) -> FloatArray:
        """Return the filled fraction of each site's buffer; 0 if buffers are unbounded."""
        return self.backlog / self.capacity if self.capacity else np.zeros(len(self.backlog))

    def of_sites(self, stats: npt.NDArray[np.int64] | FloatArray) -> FloatArray:
        """Sum values of groups by site."""
        return np.bincount(self.homes, weights=stats, minlength=self.directory.sites).astype(np.float64)

    @cached_property
    def held(self) -> FloatArray:
        """Return the bytes of active state of each site's groups."""
        return self.of_sites(self.loads.state_bytes)

    @cached_property
    def productivity(self) -> FloatArray:
        """Return the rows that each group produced per byte of its active state; 0 where it has none."""
        return _parts(self.loads.output, self.loads.state_bytes)

    @cached_property
    def idle(self) -> FloatArray:
        """Return the seconds of its share that each site was not busy."""
        return np.maximum(0.0, self.share - self.busy)

    @cached_property
    def output(self) -> FloatArray:
        """Return the rows that each site produced."""
        return self._with_cells(self.loads.output, self.cells.output)

    @cached_property
    def done(self) -> FloatArray:
        """Return the rows that each site processed."""
        return self._with_cells(self.loads.done, self.cells.done)

    def _with_cells(self, groups: IntArray | FloatArray, cells: IntArray | FloatArray) -> FloatArray:
        """Sum values of groups and of cells by site."""
        return np.asarray(self.of_sites(groups) + cells.sum(axis=0), np.float64)

    @cached_property
    def cost_per_row(self) -> FloatArray:
        """Return the seconds per processed row of each group; 0 where no row was processed."""
        return _parts(self.loads.seconds, self.loads.done)

    @cached_property
    def site_cost_per_row(self) -> FloatArray:
        """Return the seconds per processed row of each site; 0 where no row was processed."""
        return _parts(self.busy, self.done)

    @cached_property
    def delay(self) -> FloatArray:
        """Return an estimate of the seconds that a row of each group waits until it is processed.

        A result is produced when the newer of its rows is processed, so this is the production delay (now minus the
        time of the newer partner) without what that row waited before intake. No row is inspected for it: by Little's
        law, the wait is the number of pending rows divided by the rate of processing; and a row that arrives at a
        random time of an epoch waits for half of the epoch on average. Where nothing is processed, pending rows have
        waited for the whole round at least.
        """
        return self._delay(self.loads.pending, self.loads.done)

    @cached_property
    def site_delay(self) -> FloatArray:
        """Return an estimate of the seconds that a row waits at each site, as in `delay`."""
        return self._delay(self.backlog, self.done)

    def _delay(self, pending: IntArray | FloatArray, done: IntArray | FloatArray) -> FloatArray:
        waits = self.seconds * _parts(pending, done) + np.where((done == 0) & (pending > 0), self.seconds, 0.0)
        return np.where((done > 0) | (pending > 0), waits + self.seconds / self.epochs / 2, 0.0)

    @cached_property
    def pace(self) -> float:
        """Return the seconds of the slowest site per row of the whole subquery; 0 if no row arrived."""
        return float(self.busy.max()) / self.rows_in if self.rows_in else 0.0

    @property
    def rows_in(self) -> int:
        """Return the rows that arrived, each copied row counted once."""
        return int(self.loads.rows.sum()) + self.cells.different_rows

    @cached_property
    def speeds(self) -> FloatArray:
        """Return the rows per second of each site; for a site without rows, the mean of the others."""
        rows = self.of_sites(self.loads.rows) + self.cells.rows
        known = (self.busy > 0) & (rows > 0)
        speeds = np.divide(rows, self.busy, out=np.zeros(len(rows)), where=known)
        return np.where(known, speeds, speeds[known].mean() if known.any() else 1.0)


def _parts(some: IntArray | FloatArray, of: IntArray | FloatArray) -> FloatArray:
    """Divide elementwise, giving 0 where the divisor is 0."""
    return np.divide(some, of, out=np.zeros(len(some)), where=of > 0)
