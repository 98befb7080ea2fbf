"""State under another directory: every row and every mark goes to one new home, and slices stay few."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.driver.move_state import rehomed
from penstock.progress.mark import Marks, at
from penstock.state.directory import Directory, Group, uniform
from penstock.state.hash_ranges import HashRange
from penstock.state.model import SiteState, SubqueryState, moved_to, starting_marks
from penstock.state.runs import RunFile, Slice

CELLS, DEPTH = 64, 6  # the hash space in 64 cells, with a row in each


def low(cell: int) -> int:
    return Group(cell, DEPTH).range.low


def home(directory: Directory, cell: int) -> int:
    return next(site for site, part in directory.home_ranges() if part.low <= low(cell) < part.high)


class Model:
    """A subquery, and what must be true of it. Every run has a row in each cell that its site had when it was made."""

    def __init__(self, directory: Directory) -> None:
        sites = (SiteState((), starting_marks(directory.ranges_of(n), 1)) for n in range(directory.sites))
        self.state = SubqueryState(directory, tuple(sites))
        self.runs: dict[str, set[int]] = {}
        self.marks: dict[int, Marks] = {cell: self.mark_of(cell) for cell in range(CELLS)}

    def mark_of(self, cell: int) -> Marks:
        site = self.state.sites[home(self.state.directory, cell)]
        (found,) = (m.marks for m in site.marks if m.range.low <= low(cell) < m.range.high)
        return found

    def epoch(self, number: int) -> None:
        """Every site writes a run, and comes further with a part of its groups."""
        self.state = replace(self.state, sites=tuple(self._stepped(number, n) for n in range(len(self.state.sites))))

    def _stepped(self, number: int, site: int) -> SiteState:
        before = self.state.sites[site]
        cells = [cell for cell in range(CELLS) if home(self.state.directory, cell) == site]
        if not cells:
            return before
        name = f"e{number}-s{site}"
        self.runs[name] = set(cells)
        slices = (
            *before.slices,
            Slice(RunFile(name, 0, 1, 1, "", 0, 0, 0), HashRange(low(cells[0]), low(cells[-1]) + 1)),
        )
        reached = (at(number),)
        worked = HashRange(low(cells[0]), low(cells[len(cells) // 2]) + 1)
        self.marks |= {cell: reached for cell in cells if low(cell) < worked.high}
        return replace(before, slices=slices, pending=slices[-1:], marks=moved_to(before.marks, [worked], reached))

    def check(self) -> None:
        assert {cell: self.mark_of(cell) for cell in range(CELLS)} == self.marks
        for name, cells in self.runs.items():
            kept = [(n, p) for n, site in enumerate(self.state.sites) for p in site.slices if p.run.name == name]
            places = [(c, n) for n, p in kept for c in cells if p.range.low <= low(c) < p.range.high]
            assert sorted(places) == [(cell, home(self.state.directory, cell)) for cell in sorted(cells)]


HOMES = st.lists(st.integers(0, 4), min_size=16, max_size=16)


@given(st.lists(HOMES, min_size=2, max_size=6))
def test_every_row_and_every_mark_goes_to_one_new_home(schedule: list[list[int]]) -> None:
    directories = [Directory(5, uniform(1, 16).groups, tuple(homes)) for homes in schedule]
    model = Model(directories[0])
    for number, directory in enumerate(directories):
        model.state = rehomed(model.state, directory)
        model.check()
        model.epoch(number + 1)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(1, 16))
def test_sites_come_and_go(schedule: list[int], groups: int) -> None:
    model = Model(uniform(schedule[0], groups))
    for number, sites in enumerate(schedule):
        model.state = rehomed(model.state, model.state.directory.scaled(sites))
        model.check()
        model.epoch(number + 1)


def test_a_move_between_scattered_groups_cuts_only_what_it_takes_away() -> None:
    directory = Directory(4, uniform(1, CELLS).groups, tuple(cell % 4 for cell in range(CELLS)))
    model = Model(directory)
    model.epoch(1)
    before = model.state
    model.state = rehomed(before, directory.moved(Group(21, DEPTH), 2))
    model.check()
    assert [len(site.slices) for site in model.state.sites] == [1, 2, 2, 1]
    assert [len(site.pending) for site in model.state.sites] == [1, 2, 2, 1]
    assert model.state.sites[0] is before.sites[0]
    assert [len(site.marks) for site in before.sites] == [2, 2, 2, 2]
    assert all(len(site.marks) <= 4 for site in model.state.sites)
