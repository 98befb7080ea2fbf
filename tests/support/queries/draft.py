"""A query while it is drawn at random, with what the next operator needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import pyarrow as pa

from penstock.api.streams import Stream
from penstock.plan.logical import Filter, Node, Project, Source, SplitRows
from tests.support.queries.data import SECOND


@dataclass(frozen=True)
class Draft:
    """A query under construction. `rounded` are columns with results of floating-point arithmetic, by which no operator
    may group, join, filter or order. `unit` is the approximate size of a small window."""

    stream: Stream
    rounded: frozenset[str] = frozenset()
    unit: int = SECOND

    @property
    def node(self) -> Node:
        return self.stream.node

    @cached_property
    def schema(self) -> pa.Schema:
        return self.stream.schema

    @property
    def times(self) -> tuple[str, ...]:
        return self.stream.times

    @property
    def exact(self) -> list[str]:
        """Return the columns without rounding."""
        return [name for name in self.schema.names if name not in self.rounded]

    def of_kind(self, is_kind: Callable[[pa.DataType], bool]) -> list[str]:
        """Return the exact columns whose type satisfies `is_kind`."""
        return [name for name in self.exact if is_kind(self.schema.field(name).type)]

    @property
    def integers(self) -> list[str]:
        """Return the integer columns other than progressing ones."""
        return [name for name in self.of_kind(pa.types.is_integer) if name not in self.times]

    @property
    def rows_of_source(self) -> bool:
        """Return whether rows still have the numbers that they had at their source."""
        node = self.node
        while isinstance(node, Filter | SplitRows | Project):
            node = node.input
        return isinstance(node, Source)

    def then(self, stream: Stream) -> Draft:
        """Return the draft with an operator that keeps the columns."""
        return replace(self, stream=stream)

    def without_rounded(self) -> Draft:
        """Return the draft without the rounded columns."""
        return Draft(self.stream.select(*self.exact), unit=self.unit) if self.rounded else self


@dataclass(frozen=True)
class Drawing:
    """The source of randomness for operators; `other` draws one more draft, for an operator with several inputs."""

    random: Random
    other: Callable[[], Draft]

    def some(self, names: list[str], most: int) -> list[str]:
        """Draw up to `most` of the names, perhaps none, in any order."""
        return self.random.sample(names, self.random.randint(0, min(most, len(names))))


Operator = Callable[[Drawing, Draft], Draft | None]  # None: it cannot follow this draft
