"""State of spread hashes under another directory: each row is at one cell or at all, and nowhere else."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.driver.move_state import rehomed
from penstock.state.directory import Directory, Group, uniform
from penstock.state.hash_ranges import EVERYTHING, HashRange, remaining
from penstock.state.hot_keys import Cells
from penstock.state.model import SiteState, SubqueryState, starting_marks
from penstock.state.runs import RunFile, Slice

SITES, PORTS, DEPTH = 4, 2, 5
HASHES = [Group(n, DEPTH).low for n in range(2**DEPTH)]  # two in each of 16 groups


def cells_of(hash_: int) -> st.SearchStrategy[Cells]:
    places = st.permutations(range(SITES)).flatmap(lambda all_: st.integers(2, SITES).map(lambda n: tuple(all_[:n])))
    return st.builds(Cells, st.just(hash_), st.integers(0, PORTS - 1), places)


SPREAD = st.lists(st.sampled_from(HASHES), unique=True, max_size=5).flatmap(
    lambda hashes: st.tuples(*map(cells_of, sorted(hashes)))
)
HOMES = st.lists(st.integers(0, SITES - 1), min_size=16, max_size=16)
DIRECTORIES = st.builds(
    lambda homes, spread: Directory(SITES, uniform(1, 16).groups, tuple(homes), spread), HOMES, SPREAD
)


class Model:
    """A subquery whose sites have nothing pending. `content` says what each run has of each hash; a row and its copies
    have one name."""

    def __init__(self, directory: Directory) -> None:
        sites = (SiteState((), starting_marks(directory.ranges_of(n), 1)) for n in range(SITES))
        self.state = SubqueryState(directory, tuple(sites))
        self.content: dict[str, dict[int, str]] = {}

    def epoch(self, number: int) -> None:
        """Every site writes a run of each port, with a row of each hash that it has."""
        self.state = replace(self.state, sites=tuple(self._stepped(number, site) for site in range(SITES)))

    def _stepped(self, number: int, site: int) -> SiteState:
        home, before = self.state.directory.ranges_of(site), self.state.sites[site]
        own = [hash_ for hash_ in HASHES if any(part.low <= hash_ < part.high for part in home)]
        slices = [self._written(number, site, port, own) for port in range(PORTS)] if own else []
        return replace(before, slices=(*before.slices, *slices), marks=starting_marks([EVERYTHING], 1))

    def _written(self, number: int, site: int, port: int, own: list[int]) -> Slice:
        run = RunFile(f"e{number}-s{site}-p{port}", port, 1, 1, "", 0, 0, 0)
        self.content[run.name] = {hash_: f"e{number}-p{port}-{self._by(site, port, hash_)}" for hash_ in own}
        return Slice(run, HashRange(own[0], own[-1] + 1))

    def _by(self, site: int, port: int, hash_: int) -> str:
        cells = self.state.directory.cells_at(hash_)
        return f"s{site}" if cells is None or cells.cut == port else "all"

    def rows(self, site: int, port: int, hash_: int) -> Counter[str]:
        slices = [p for p in self.state.sites[site].slices if p.run.port == port]
        inside = [p.run.name for p in slices if p.range.low <= hash_ < p.range.high]
        return Counter(self.content[name][hash_] for name in inside if hash_ in self.content[name])

    def check(self) -> None:
        for number, site in enumerate(self.state.sites):
            home = self.state.directory.ranges_of(number)
            assert not remaining(home, [m.range for m in site.marks]), "what a site has is without a mark"
        for hash_ in HASHES:
            for port in range(PORTS):
                self._check(port, hash_, [self.rows(site, port, hash_) for site in range(SITES)])

    def _check(self, port: int, hash_: int, found: list[Counter[str]]) -> None:
        directory = self.state.directory
        cells, all_rows = directory.cells_at(hash_), Counter(self._names(port, hash_))
        sites = (directory.home_at(hash_),) if cells is None else cells.sites
        assert not any(rows for site, rows in enumerate(found) if site not in sites), "a row away from home"
        if cells is None or port == cells.cut:
            assert sum(found, Counter()) == all_rows
        else:
            assert all(found[site] == all_rows for site in sites)

    def _names(self, port: int, hash_: int) -> set[str]:
        runs = (run for name, run in self.content.items() if name.endswith(f"p{port}"))
        return {run[hash_] for run in runs if hash_ in run}


@given(st.lists(DIRECTORIES, min_size=2, max_size=6))
def test_rows_of_the_cut_port_are_in_one_cell_and_those_of_others_in_all(schedule: list[Directory]) -> None:
    """Hashes are spread, spread otherwise and gathered while the groups around them get other homes."""
    model = Model(schedule[0])
    for number, directory in enumerate(schedule):
        model.state = rehomed(model.state, directory)
        model.check()
        model.epoch(number + 1)
