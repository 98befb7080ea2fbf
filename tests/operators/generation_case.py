"""Runs a join whose state is parked now and then: rows and merges of two generations come in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
from join_case import Site, later, prepare, shuffled

from penstock.operators.band_join.join import BandJoin
from penstock.operators.generations import apart
from penstock.operators.protocol import Portion, Stored
from penstock.operators.theta_join.join import GridJoin
from penstock.progress.mark import BEGIN, END, Marks
from penstock.state.hash_ranges import HASH_END, HashRange

Generation = list[list[Stored]]  # slices, by port


@dataclass
class ParkingSite(Site):
    """A site with generations. `stored` is the active one; `parked` are the others, the oldest first."""

    parked: list[Generation] = field(default_factory=list)

    def advance(self, upto: Marks) -> None:
        """Works on all that is pending, with the active generation alone while others are parked; then parks, cleans
        up, or neither."""
        if self.parked:
            self.advance_apart()
        else:
            super().advance(upto)
        match self.random.choice(("park", "park", "clean up", None, None)):
            case "park":
                self.park()
            case "clean up":
                self.clean_up(upto)

    def advance_apart(self) -> None:
        ports = range(self.join.ports)
        fresh = tuple(self.join.combine(port, self.pending[port]) for port in ports)
        self.work(apart(Portion(tuple(self.stored), fresh, self.done, self.done)))
        self.pending = [[] for _ in ports]
        for port in ports:
            self.maybe_compact(port)
            self.parked[0][port] = [s for s in (self.aged(s, port) for s in self.parked[0][port]) if s.rows.num_rows]

    def park(self) -> None:
        if len(self.parked) < 5 and any(self.stored):
            self.parked.append(self.stored)
            self.stored = [[] for _ in self.join.schemas]

    def clean_up(self, upto: Marks) -> None:
        """Merges two generations, neighbours or not. The marks may advance if no other is left."""
        if not self.parked:
            return
        generations = [*self.parked, self.stored]
        older, younger = sorted(self.random.sample(range(len(generations)), 2))
        if len(generations) > 2 or self.random.random() < 0.5:
            upto = self.done
        self.merge(generations[older], generations.pop(younger), upto, oldest=older == 0)
        *self.parked, self.stored = generations
        self.done = upto

    def merge(self, older: Generation, younger: Generation, upto: Marks, oldest: bool) -> None:
        tables = [[s.rows for s in slices] for slices in younger]
        fresh = tuple(self.join.combine(port, tables[port]) for port in range(self.join.ports))
        portion = Portion(tuple(older), fresh, self.done, upto, clean_up=True)
        before = [len(slices) for slices in self.stored]
        self.work(portion if oldest else apart(portion))
        assert [len(slices) for slices in self.stored] == before, "a clean-up keeps rows that are stored already"
        for slices, more in zip(older, younger, strict=True):
            slices += more

    def finish(self) -> None:
        while self.parked:
            self.clean_up(self.done)
        Site.advance(self, tuple(END for _ in self.join.schemas))


def run(join: BandJoin | GridJoin, inputs: Sequence[pa.Table], random: Random) -> pa.Table:
    """The results over inputs, some of which may be far ahead of others."""
    cut = random.choice([2**63, 2**62])
    ranges = random.choice([[HashRange(0, HASH_END)], [HashRange(0, cut), HashRange(cut, HASH_END)]])
    sites = [ParkingSite(join, part, random) for part in ranges]  # type: ignore[arg-type]
    left = [shuffled(*both, random.choice([0, 10, 100]), random) for both in zip(inputs, join.times, strict=True)]
    pace = [random.choice([3, 10, 40]) for _ in inputs]
    marks: Marks = tuple(BEGIN for _ in inputs)
    while any(table.num_rows for table in left):
        for port, table in enumerate(left):
            count = random.randrange(pace[port])
            arriving, left[port] = table.slice(0, count), table.slice(count)
            for site in sites:
                site.take_in(port, prepare(join, port, arriving, random))  # type: ignore[arg-type]
        marks = tuple(later(marks[n], left[n], join.times[n], random) for n in range(len(left)))
        for site in sites:
            if random.random() < 0.7:
                site.advance(marks if not site.parked else tuple(map(max, site.done, marks)))
    for site in sites:
        site.advance(site.done)
        site.finish()
    return pa.concat_tables([t for site in sites for t in site.results] or [join.result_schema.empty_table()])
