"""A query while it is drawn at random, and what the next operator may do with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random

import pyarrow as pa

from penstock.api.streams import Stream
from penstock.plan.logical import Filter, Node, Project, Source, Split
from tests.support.queries.data import SECOND


@dataclass(frozen=True)
class Draft:
    """`rounded` are columns that hold results of floating-point arithmetic, by which nothing may group, join, filter or
    order. `unit` is how much of time a small window is about."""

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
        """The columns that are free of rounding."""
        return [name for name in self.schema.names if name not in self.rounded]

    def of_kind(self, is_kind: Callable[[pa.DataType], bool]) -> list[str]:
        return [name for name in self.exact if is_kind(self.schema.field(name).type)]

    @property
    def integers(self) -> list[str]:
        """Integer columns other than progressing ones."""
        return [name for name in self.of_kind(pa.types.is_integer) if name not in self.times]

    @property
    def rows_of_source(self) -> bool:
        """Whether its rows still have the numbers they had at their source."""
        node = self.node
        while isinstance(node, Filter | Split | Project):
            node = node.input
        return isinstance(node, Source)

    def then(self, stream: Stream) -> Draft:
        """An operator that keeps the columns."""
        return replace(self, stream=stream)

    def without_rounded(self) -> Draft:
        return Draft(self.stream.select(*self.exact), unit=self.unit) if self.rounded else self


@dataclass(frozen=True)
class Drawing:
    """Where drafts come from: `other` draws one more, for an operator of several inputs."""

    random: Random
    other: Callable[[], Draft]

    def some(self, names: list[str], most: int) -> list[str]:
        """A few of the names, perhaps none, in any order."""
        return self.random.sample(names, self.random.randint(0, min(most, len(names))))


Operator = Callable[[Drawing, Draft], Draft | None]  # None: it cannot stand behind this draft
