"""The first rows of each group in some order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from penstock.kernels.arrays import Flags, Indices, Words
from penstock.kernels.segments import Segments
from penstock.operators.sort_words import order_by_words

WordsOf = Callable[[Indices], list[Words]]  # the sort words of some rows, the most significant first


@dataclass(frozen=True)
class Members:
    """Rows and the numbers of the groups they are in. Invariant: the numbers never fall, so a group stands together."""

    rows: Indices
    groups: Indices

    def chosen(self, which: Indices | Flags) -> Members:
        return Members(self.rows[which], self.groups[which])

    def starts(self) -> Indices:
        """Where the group of each row starts."""
        heads = self._heads()
        return np.repeat(heads, np.diff(heads, append=len(self.groups)))

    def places(self) -> Indices:
        """The place of each row in its group, from 0."""
        return np.arange(len(self.groups)) - self.starts()

    def sizes(self) -> Indices:
        """The size of each row's group."""
        sizes = np.diff(self._heads(), append=len(self.groups))
        return np.repeat(sizes, sizes)

    def _heads(self) -> Indices:
        return np.flatnonzero(np.diff(self.groups, prepend=-1))


def members_of(groups: Segments) -> Members:
    """The members of groups that do not overlap."""
    return Members(groups.rows(), groups.spread(np.arange(len(groups))))


def in_order(members: Members, words_of: WordsOf) -> Members:
    """The same, with each group in order of the words."""
    return members.chosen(_order(members, words_of(members.rows)))


def first_rows(members: Members, n: int, words_of: WordsOf, *, ties: bool) -> Members:
    """The first `n` rows of each group, and with `ties` those that equal the n-th. Only groups that are larger are
    looked into, so the rows of a group come in no certain order."""
    large = members.sizes() > n
    if not large.any():
        return members
    some = members.chosen(large)
    words = words_of(some.rows)
    order = _order(some, words)
    some = some.chosen(order)
    if ties:
        levels = _levels(len(order), [word[order] for word in words])
        leading = levels <= levels[some.starts() + n - 1]
    else:
        leading = some.places() < n
    return _together(members.chosen(~large), some.chosen(leading))


def _order(members: Members, words: Sequence[Words]) -> Indices:
    return order_by_words([members.groups.astype(np.uint64), *words])


def _levels(rows: int, words: Sequence[Words]) -> Indices:
    """Numbers that grow from row to row of a group, except where a row equals the one before it."""
    changes = np.zeros(rows, dtype=np.bool_)
    for word in words:
        changes[1:] |= word[1:] != word[:-1]
    return np.cumsum(changes)


def _together(some: Members, others: Members) -> Members:
    both = Members(np.append(some.rows, others.rows), np.append(some.groups, others.groups))
    return both.chosen(np.argsort(both.groups, kind="stable"))
