"""The first rows of groups."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.kernels.arrays import Words
from penstock.operators.top import Members, first_rows, in_order

WORD = np.array([5, 3, 3, 3, 9, 1, 1, 1], dtype=np.uint64)
MEMBERS = Members(np.arange(8), np.array([0, 0, 0, 0, 0, 1, 1, 2]))


def words(rows: np.ndarray) -> list[Words]:
    return [WORD[rows]]


def groups(members: Members) -> dict[int, list[int]]:
    assert np.all(np.diff(members.groups) >= 0)
    return {int(g): sorted(members.rows[members.groups == g].tolist()) for g in np.unique(members.groups)}


@pytest.mark.parametrize(
    ("n", "kept"),
    [
        (1, {0: [1, 2, 3], 1: [5, 6], 2: [7]}),
        (3, {0: [1, 2, 3], 1: [5, 6], 2: [7]}),
        (4, {0: [0, 1, 2, 3], 1: [5, 6], 2: [7]}),
    ],
)
def test_only_ties_with_the_nth_row_stay(n: int, kept: dict[int, list[int]]) -> None:
    assert groups(first_rows(MEMBERS, n, words, ties=True)) == kept


def test_without_ties_there_are_n() -> None:
    found = first_rows(MEMBERS, 2, words, ties=False)
    assert found.groups.tolist() == [0, 0, 1, 1, 2]
    assert set(found.rows[:2].tolist()) < {1, 2, 3}


def test_small_groups_are_not_looked_into() -> None:
    seen: list[int] = []
    first_rows(MEMBERS, 2, lambda rows: seen.extend(rows.tolist()) or words(rows), ties=True)
    assert seen == [0, 1, 2, 3, 4]
    assert first_rows(MEMBERS, 5, lambda rows: pytest.fail("nothing to cut"), ties=True) is MEMBERS


def test_in_order_each_group_has_its_places() -> None:
    ordered = in_order(MEMBERS, words)
    assert WORD[ordered.rows].tolist() == [3, 3, 3, 5, 9, 1, 1, 1]
    assert ordered.places().tolist() == [0, 1, 2, 3, 4, 0, 1, 0]


def test_no_rows() -> None:
    none = Members(np.arange(0), np.arange(0))
    assert len(first_rows(none, 1, words, ties=True).rows) == len(none.places()) == 0
