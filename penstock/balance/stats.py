"""What a subquery did over a round: what its sites and its groups told, added up over some epochs. Pure.

A policy reads a round and nothing else, so whatever it decides can be tried on figures that were written by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from penstock.balance.keys import NO_CELLS, CellLoads, KeyLoad, heaviest
from penstock.state.directory import Directory

Counts = npt.NDArray[np.int64]
Figures = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Loads:
    """What groups came to, without hashes that live in cells. Invariant: all arrays have one entry per group, in the
    order of the directory.

    `rows` came in, and `heaviest` of them were of one key, the most that any had; `done` rows were worked on, also such
    that had come before, and `seconds` of work they and what was due took; `state_rows` and `state_bytes` are what the
    group holds, and `pending` rows wait for work, all at the end. `last_used` is the last epoch of the round in which a
    row came, counted from 1; 0: none came. `output` is the rows that the operator put out, before what is behind it in
    the subquery; shared out among the groups of a work item as its seconds are, so it may be a fraction.
    """

    rows: Counts
    heaviest: Counts
    seconds: Figures
    state_rows: Counts
    state_bytes: Counts
    pending: Counts
    last_used: Counts
    done: Counts
    output: Figures

    def then(self, later: Loads, epoch: int) -> Loads:
        """These and those of the next epoch, which is the round's `epoch`-th."""
        return replace(
            later,
            rows=self.rows + later.rows,
            heaviest=self.heaviest + later.heaviest,
            seconds=self.seconds + later.seconds,
            done=self.done + later.done,
            output=self.output + later.output,
            last_used=np.where(later.rows > 0, epoch, self.last_used),
        )


@dataclass(frozen=True, eq=False)
class Told:
    """What a site tells after an epoch: of its groups, in the order of the directory, of the heaviest keys in them, and
    of its cells."""

    load: Loads
    keys: tuple[KeyLoad, ...]
    cells: CellLoads


@dataclass(frozen=True, eq=False)
class Round:
    """One subquery over `epochs` epochs, which took `seconds`.

    Invariant: `loads` has one entry per group of the directory, the arrays below one per site. `busy` is how long a
    site worked, `share` how long it could have: the time that the sites of its level had together, until the last was
    done or the deadline had come, and the rest between epochs. `backlog` is the rows that were pending at the ends of
    epochs, on average, and `capacity` how many may be (0: no bound). `memory` is the bytes of state that a site may
    hold, `most_sites` how many there may be (0: no bound). `settled` has one entry per group: whether it stays where it
    is, for it was moved lately (None: none does). `may_cut` are the ports whose rows may be dealt out among sites;
    `keys` the heaviest keys of those that live in groups, and `cells` what those came to that do not.
    """

    directory: Directory
    epochs: int
    seconds: float
    loads: Loads
    busy: Figures
    share: Figures
    backlog: Figures
    capacity: int = 0
    memory: int = 0
    most_sites: int = 0
    settled: Mask | None = None
    may_cut: tuple[int, ...] = ()
    keys: tuple[KeyLoad, ...] = ()
    cells: CellLoads = NO_CELLS

    def then(self, later: Round) -> Round:
        """This round with one more epoch, under the same directory."""
        epochs = self.epochs + later.epochs
        return replace(
            later,
            epochs=epochs,
            seconds=self.seconds + later.seconds,
            loads=self.loads.then(later.loads, epochs),
            busy=self.busy + later.busy,
            share=self.share + later.share,
            backlog=(self.backlog * self.epochs + later.backlog * later.epochs) / epochs,
            keys=heaviest((*self.keys, *later.keys)),
            cells=self.cells.then(later.cells),
        )

    @cached_property
    def homes(self) -> npt.NDArray[np.int64]:
        """The site of each group."""
        return self.directory.home_of

    @cached_property
    def stays(self) -> Mask:
        """Which groups no move may be proposed for: it would only be refused."""
        return np.zeros(len(self.homes), np.bool_) if self.settled is None else self.settled

    @cached_property
    def utilisation(self) -> Figures:
        """The part of its share that each site was busy."""
        return _parts(self.busy, self.share)

    @cached_property
    def occupancy(self) -> Figures:
        """The part of its buffer that each site had filled; 0 where there is no bound."""
        return self.backlog / self.capacity if self.capacity else np.zeros(len(self.backlog))

    def of_sites(self, figures: npt.NDArray[np.int64] | Figures) -> Figures:
        """What the figures of groups come to at each site."""
        return np.bincount(self.homes, weights=figures, minlength=self.directory.sites).astype(np.float64)

    @cached_property
    def idle(self) -> Figures:
        """The seconds of its share that each site was not busy."""
        return np.maximum(0.0, self.share - self.busy)

    @cached_property
    def output(self) -> Figures:
        """The rows that each site put out."""
        return self._with_cells(self.loads.output, self.cells.output)

    @cached_property
    def done(self) -> Figures:
        """The rows that each site worked on."""
        return self._with_cells(self.loads.done, self.cells.done)

    def _with_cells(self, groups: Counts | Figures, cells: Counts | Figures) -> Figures:
        return np.asarray(self.of_sites(groups) + cells.sum(axis=0), np.float64)

    @cached_property
    def cost_per_row(self) -> Figures:
        """The seconds of work that each group took for a row; 0 where none was worked on."""
        return _parts(self.loads.seconds, self.loads.done)

    @cached_property
    def site_cost_per_row(self) -> Figures:
        """The seconds that each site was busy for a row; 0 where none was worked on."""
        return _parts(self.busy, self.done)

    @cached_property
    def delay(self) -> Figures:
        """About how many seconds a row of each group waits until it is worked on.

        A result comes as soon as the newer of its rows is worked on, so this is the production delay (now minus the
        time of the newer partner) less what that row waited before it was taken in. Nobody has to look at a row for it:
        by Little's law rows wait as long as those take that are pending, at the rate at which they are done; and one
        that comes at any time of an epoch waits for half of it on average. Where nothing is done, what is pending has
        waited for all of the round at least."""
        return self._delay(self.loads.pending, self.loads.done)

    @cached_property
    def site_delay(self) -> Figures:
        """The same of each site, over all of its rows."""
        return self._delay(self.backlog, self.done)

    def _delay(self, pending: Counts | Figures, done: Counts | Figures) -> Figures:
        waits = self.seconds * _parts(pending, done) + np.where((done == 0) & (pending > 0), self.seconds, 0.0)
        return np.where((done > 0) | (pending > 0), waits + self.seconds / self.epochs / 2, 0.0)

    @cached_property
    def pace(self) -> float:
        """The seconds that the slowest site takes for a row of the whole subquery; 0 where none came."""
        return float(self.busy.max()) / self.rows_in if self.rows_in else 0.0

    @property
    def rows_in(self) -> int:
        """The rows that came to the subquery, copies counted once."""
        return int(self.loads.rows.sum()) + self.cells.different_rows

    @cached_property
    def speeds(self) -> Figures:
        """Rows that each site works through in a second; where it had none, as many as the others on average."""
        rows = self.of_sites(self.loads.rows) + self.cells.rows
        known = (self.busy > 0) & (rows > 0)
        speeds = np.divide(rows, self.busy, out=np.zeros(len(rows)), where=known)
        return np.where(known, speeds, speeds[known].mean() if known.any() else 1.0)


def _parts(some: Counts | Figures, of: Counts | Figures) -> Figures:
    return np.divide(some, of, out=np.zeros(len(some)), where=of > 0)
