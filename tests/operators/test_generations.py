"""Joins whose state is parked in generations and cleaned up: against DuckDB in batch, and step by step."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pyarrow as pa
import pytest
from generation_case import run
from join_case import batch_answer, multiset
from test_join import BANDS, INTEGER, KINDS, LIMITS, SMALLER, WIDE, band_join, chain_of, query, rows
from test_operator_kinds import all_operators
from test_theta import ANY, CONDITIONS, GRIDS, LEFT, RIGHT, expected, grid_join
from test_theta import rows as theta_rows
from theta_case import as_rows

from penstock.operators.band_join import probes as join_probes
from penstock.operators.band_join.join import BandJoin
from penstock.operators.band_join.match import Matcher
from penstock.operators.bands import Band
from penstock.operators.generations import Generational, apart
from penstock.operators.protocol import Portion, Stored
from penstock.operators.theta_join import join as theta_join
from penstock.operators.theta_join import pairs as theta_pairs
from penstock.progress.mark import BEGIN, END, MAX_TIME, MIN_TIME, Marks, at
from tests.support.amounts import some_of


def check(join: BandJoin, inputs: list[pa.Table], random: Random, condition: str = "true") -> None:
    found = run(join, inputs, random)
    assert multiset(found) == multiset(batch_answer(query(join, condition), inputs))


@pytest.mark.parametrize("band", some_of(BANDS), ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_two_inputs(kind: str, band: tuple[int | None, int | None], random: Random) -> None:
    keys: list[object] = [None, *range(random.choice([1, 4, 12]))]
    inputs = [rows(random, port, random.randrange(120), keys, INTEGER, 60) for port in (0, 1)]
    check(replace(band_join(kind, (Band(0, 1, *band),)), hash_bits=random.choice([64, 8, 0])), inputs, random)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_a_condition_on_both_sides(kind: str, bits: int, random: Random) -> None:
    """Few rows have several partners, and many have none."""
    inputs = [rows(random, port, 120, [None, *range(8)], INTEGER, 60) for port in (0, 1)]
    join = replace(band_join(kind, (Band(0, 1, 7, 4),)), condition=SMALLER, hash_bits=bits)
    check(join, inputs, random, "v0 < v1")


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates(kind: str, random: Random) -> None:
    inputs = [rows(random, port, 6, [1, 2, None], INTEGER, 4) for port in (0, 1)]
    inputs = [table.take(pa.array([random.randrange(6) for _ in range(60)])) for table in inputs]
    check(replace(band_join(kind, (Band(0, 1, 1, 1),)), hash_bits=random.choice([64, 0])), inputs, random)


@pytest.mark.parametrize("bits", [64, 8, 0])
@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_several_inputs(inputs: int, bits: int, random: Random) -> None:
    tables = [rows(random, port, 70, [None, 1, 2, 3], INTEGER, 60) for port in range(inputs)]
    check(replace(band_join("inner", chain_of(inputs, random), inputs), hash_bits=bits), tables, random)


@pytest.mark.parametrize("inputs", [2, 3, 4])
def test_several_inputs_without_bands(inputs: int, random: Random) -> None:
    tables = [rows(random, port, 15, [None, 1, 2, 3], INTEGER, 60) for port in range(inputs)]
    check(replace(band_join("inner", (), inputs), hash_bits=random.choice([8, 0])), tables, random)


@pytest.mark.parametrize("band", some_of(WIDE), ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_times_at_the_limits(kind: str, band: tuple[int, int], random: Random) -> None:
    inputs = [rows(random, port, 40, [1, 2], INTEGER, 30) for port in (0, 1)]
    for port, table in enumerate(inputs):
        times = pa.array([random.choice(LIMITS) for _ in range(40)], pa.int64())
        inputs[port] = table.set_column(1, f"t{port}", times)
    check(band_join(kind, (Band(0, 1, *band),)), inputs, random)


@pytest.mark.parametrize("grid", some_of(GRIDS))
@pytest.mark.parametrize("band", [(0, 7), (-2, 5), (None, 2), ANY])
def test_a_theta_join(grid: tuple[int, int], band: tuple[int | None, int | None], random: Random) -> None:
    condition = CONDITIONS[random.choice(["none", "less", "two"])]
    join = grid_join(condition, band, grid=grid, hash_bits=random.choice((64, 8, 0)))
    left, right = theta_rows(random, LEFT, 60, 25), theta_rows(random, RIGHT, 60, 25)
    assert as_rows(run(join, [left, right], random)) == expected(join, left, right)


def test_joins_that_probe_for_pairs_can_be_parked() -> None:
    assert {c.__name__ for c in all_operators() if issubclass(c, Generational)} >= {"BandJoin", "GridJoin"}
    assert "DistinctRows" not in {c.__name__ for c in all_operators() if issubclass(c, Generational)}


class Generations:
    """A join of one key fed by hand; a row is (time,). `older` and `younger` are lists of times, one per input."""

    def __init__(self, kind: str, before: int, after: int, inputs: int = 2) -> None:
        bands = tuple(Band(0, port, before, after) for port in range(1, inputs))
        self.join = replace(band_join(kind, bands, inputs), payload=tuple((f"t{port}",) for port in range(inputs)))

    def state(self, times: list[list[int]], keys: tuple[int | None, ...] = (1,)) -> tuple[pa.Table, ...]:
        tables = [self.table(port, both, keys) for port, both in enumerate(times)]
        return tuple(self.join.prepare(port, table) for port, table in enumerate(tables))

    @staticmethod
    def table(port: int, times: list[int], keys: tuple[int | None, ...]) -> pa.Table:
        empty = rows(Random(0), port, 0, [1], INTEGER, 1)
        row = {name: [None] * len(times) for name in empty.column_names}
        row |= {f"t{port}": times, f"k{port}": [keys[n % len(keys)] for n in range(len(times))]}  # type: ignore[dict-item]
        return pa.table(row, schema=empty.schema)

    def stored(self, times: list[list[int]]) -> tuple[list[Stored], ...]:
        return tuple([Stored(table, MIN_TIME, MAX_TIME)] for table in self.state(times))

    def cleaned_up(self, older: list[list[int]], younger: list[list[int]], after: Marks, upto: Marks) -> list[object]:
        portion = Portion(self.stored(older), self.state(younger), after, upto, clean_up=True)
        return self.results(portion)

    def results(self, portion: Portion) -> list[object]:
        tables = self.join.work(portion).results
        return sorted((tuple(row.values()) for table in tables for row in table.to_pylist()), key=repr)


START = (BEGIN, BEGIN)


def test_only_pairs_of_both_generations_are_produced() -> None:
    join = Generations("inner", 3, 3)
    assert join.cleaned_up([[10], [11]], [[12], [13]], START, START) == [(10, 13), (12, 11)]


def test_every_mixture_of_three_generations_rows_is_produced_once() -> None:
    join, start = Generations("inner", 9, 9, inputs=3), (BEGIN,) * 3
    found = join.cleaned_up([[0], [0], [0]], [[1], [1], [1]], start, start)
    assert found == [(0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1, 1, 0)]


def test_a_semi_join_gives_rows_whose_first_partner_is_of_the_other_generation() -> None:
    join = Generations("semi", 2, 2)
    assert join.cleaned_up([[10, 20, 30], [11]], [[40, 12, 50], [21, 51]], START, START) == [(12,), (20,)]
    assert join.cleaned_up([[10], [10]], [[10], [10]], START, START) == []


@pytest.mark.parametrize(("kind", "wanted"), [("left", [(0, 9), (20, None)]), ("anti", [(20,)])])
def test_a_young_row_behind_the_marks_is_decided_when_it_has_met_the_oldest_generation(
    kind: str, wanted: list[object]
) -> None:
    """The marks say that no partner of rows below 30 is to come; but one may be parked."""
    join = Generations(kind, 9, 9)
    marks = (at(0), at(39))
    alone = Portion(join.stored([[], []]), join.state([[0, 20], []]), marks, marks)
    assert join.results(apart(alone)) == []
    assert [kept.num_rows for kept in join.join.work(apart(alone)).keep] == [2, 0]
    assert join.cleaned_up([[10], [9]], [[0, 20, 35], []], marks, marks) == wanted


def test_a_young_row_that_only_parked_rows_may_match_is_kept() -> None:
    """The mark of input 0 has passed all partners of the row that are to come."""
    join = Generations("inner", 3, 3)
    marks = (at(100), at(10))
    portion = Portion(join.stored([[], []]), join.state([[], [20]]), marks, marks)
    assert [kept.num_rows for kept in join.join.work(portion).keep] == [0, 0]
    assert [kept.num_rows for kept in join.join.work(apart(portion)).keep] == [0, 1]


@pytest.mark.parametrize(("kind", "wanted"), [("left", [(5, None)]), ("full", [(5, None)]), ("anti", [(5,)])])
def test_a_row_without_a_key_is_given_when_it_arrives_and_not_kept(kind: str, wanted: list[object]) -> None:
    join = Generations(kind, 3, 3)
    portion = apart(Portion(join.stored([[], []]), join.state([[5, 6], []], keys=(None, 1)), START, START))
    assert join.results(portion) == wanted
    young = join.join.work(portion).keep
    cleaned = Portion(join.stored([[], []]), young, (END, END), (END, END), clean_up=True)
    assert join.results(cleaned) == [tuple(6 if value == 5 else value for value in row) for row in wanted]  # type: ignore


@pytest.mark.parametrize("kind", ["left", "full", "anti"])
def test_a_row_that_is_too_early_for_any_partner_is_given_once(kind: str) -> None:
    """Every partner is at least 5 before it, which is no time at all: decided at the very beginning."""
    join = Generations(kind, 9, -5)
    young = apart(Portion(join.stored([[], []]), join.state([[MIN_TIME + 2], []]), START, START))
    given = join.results(young)
    kept = join.join.work(young).keep
    given += join.results(Portion(join.stored([[], []]), kept, START, (END, END), clean_up=True))
    assert [row[0] for row in given] == [MIN_TIME + 2]  # type: ignore[index]


@pytest.mark.parametrize("inputs", [2, 3])
def test_results_of_a_clean_up_are_computed_one_after_another(inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first results come when few pairs have been looked at."""
    monkeypatch.setattr(join_probes, "_PAIRS", 1000)
    monkeypatch.setattr("penstock.operators.arrange._ROWS", 1000)
    monkeypatch.setattr("penstock.operators.band_join.match._ROWS", 1000)
    looked_at: list[int] = []
    verified = Matcher._verified
    monkeypatch.setattr(Matcher, "_verified", lambda self, found: looked_at.append(0) or verified(self, found))
    join, times, start = (
        Generations("inner", 9, 9, inputs),
        [[1] * 200] * 2 + [[1] * 2] * (inputs - 2),
        (BEGIN,) * inputs,
    )
    done = join.join.work(Portion(join.stored(times), join.state(times), start, start, clean_up=True))
    assert looked_at == []
    sizes = iter(table.num_rows for table in done.results)
    first = next(sizes)
    assert len(looked_at) < 5
    rest = list(sizes)
    assert max(first, *rest) <= 1000
    assert len(looked_at) > 50
    assert first + sum(rest) == {2: 2 * 200 * 200, 3: 6 * 200 * 200 * 2}[inputs]


def test_results_of_a_theta_clean_up_are_computed_one_after_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theta_pairs, "_PAIRS", 1000)
    looked_at: list[int] = []
    joined = theta_join.joined
    monkeypatch.setattr(theta_join, "joined", lambda *parts: looked_at.append(0) or joined(*parts))
    join = grid_join(None, ANY)
    state = tuple(join.prepare(port, theta_rows(Random(port), s, 200, 9)) for port, s in enumerate((LEFT, RIGHT)))
    stored = tuple([Stored(table, MIN_TIME, MAX_TIME)] for table in state)
    done = join.work(Portion(stored, state, START, START, clean_up=True))
    sizes = [table.num_rows for table in done.results]
    assert sum(sizes) == 2 * 200 * 200
    assert max(sizes) <= 1000 + 200
    assert len(looked_at) == 2
