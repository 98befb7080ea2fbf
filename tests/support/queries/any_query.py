"""Random queries of all operators, checked against the rows of their sources."""

from __future__ import annotations

import math
from collections.abc import Sequence
from random import Random

from penstock.api.streams import Stream
from penstock.plan.logical import Join, Node
from penstock.testing.oracle import Batch, opened
from penstock.testing.source_rows import tables_of
from tests.support.queries.draft import Draft, Drawing, Operator
from tests.support.queries.groups import aggregate
from tests.support.queries.joins import join, join_all, theta_join, union
from tests.support.queries.single_input import (
    distinct,
    in_order,
    keep_one,
    map_batches,
    select,
    split,
    top,
    where,
    windowed,
)

MOST_ROWS = 3_000  # in the result of any operator
_MOST_PAIRS = 5_000_000  # that a join may examine in batch
_TRIES = 8
_OPERATORS: tuple[Operator, ...] = (
    where, split, select, map_batches, windowed, distinct, top, keep_one, in_order, union,
    aggregate, aggregate, aggregate, join, join, join, join_all, theta_join,
)  # fmt: skip


def any_query(random: Random, sources: Sequence[Stream], depth: int, most_rows: int = MOST_ROWS) -> Stream:
    """Draw a query of at most `depth` operators on top of each other, over some of the in-memory sources. It compiles,
    and no operator in it outputs more than `most_rows` rows."""
    with opened(tables_of(*(source.node for source in sources))) as batch:
        return _Drawer(random, sources, batch, most_rows).draft(depth).stream


class _Drawer:
    """Draws operators one on top of another and checks the number of rows of each in batch."""

    def __init__(self, random: Random, sources: Sequence[Stream], batch: Batch, most_rows: int) -> None:
        self._random, self._sources, self._batch, self._most_rows = random, sources, batch, most_rows

    def draft(self, depth: int) -> Draft:
        """Draw a query of at most `depth` operators on top of each other."""
        if depth == 0:
            return Draft(self._random.choice(self._sources))
        below = self.draft(depth - 1)
        drawing = Drawing(self._random, lambda: self.draft(self._random.randrange(depth)))
        for _ in range(_TRIES):
            made = self._random.choice(_OPERATORS)(drawing, below)
            if made is not None and self._is_suitable(made.node):
                return made
        return below

    def _is_suitable(self, node: Node) -> bool:
        """Return whether the result is not too large; an empty result is accepted only now and then."""
        if isinstance(node, Join) and math.prod(map(self._rows, node.inputs)) > _MOST_PAIRS:
            return False
        rows = self._rows(node)
        return rows <= self._most_rows and (rows > 0 or self._random.random() < 0.2)

    def _rows(self, node: Node) -> int:
        return self._batch.count(self._batch.relation(node))
