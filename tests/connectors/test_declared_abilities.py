"""What a user's source can do beyond the protocol counts only if a base class declares it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps

ROWS = pa.table({"ts": [1, 2, 3, 4]})


@dataclass(frozen=True)
class Plain:
    """A split with a property that is called like the one of `ps.SizedSplit`."""

    first: int
    asked: list[str]
    substream: str = "numbers"
    rows: int = 1
    where: str = "here"

    @property
    def size(self) -> int:
        self.asked.append("size")
        return 8

    def read(self, columns: tuple[str, ...]) -> Iterator[ps.ReadResult]:
        yield ps.ReadResult(ROWS.slice(self.first, 1).select(list(columns)))


class Sized(Plain, ps.SizedSplit):
    """The same, declared."""


@dataclass(frozen=True)
class PlainReader:
    """A reader with methods that are called like those of the declared ones."""

    asked: list[str]
    split: type[Plain]

    def offer(self, progress: dict[str, Any] | None, max_rows: int) -> ps.Offer:
        done = progress["done"] if progress else 0
        return ps.Offer((self.split(done, self.asked),), {"done": done + 1}, ended=done + 1 == ROWS.num_rows)

    def offer_at_most(self, most: Mapping[str, int], progress: dict[str, Any] | None, max_rows: int) -> ps.Offer:
        self.asked.append("offer_at_most")
        return self.offer(progress, max_rows)

    def committed(self, progress: dict[str, Any]) -> None:
        self.asked.append("committed")


class DeclaredReader(PlainReader, ps.AcknowledgingReader, ps.SubstreamReader):
    """The same, declared."""


@dataclass(frozen=True)
class Numbers:
    """A source with methods that are called like those of the declared ones."""

    reader: type[PlainReader]
    split: type[Plain]
    asked: list[str] = field(default_factory=list)
    kind: str = "numbers"
    bounded: bool = True

    def identity(self) -> dict[str, Any]:
        return {}

    def discover(self) -> pa.Schema:
        return ROWS.schema

    def open(self, schema: pa.Schema, time: str) -> PlainReader:
        return self.reader(self.asked, self.split)

    def would_list(self, path: str) -> bool:
        self.asked.append("would_list")
        return False

    def attach(self, checkpoint: Path) -> None:
        self.asked.append("attach")

    def detach(self) -> None:
        self.asked.append("detach")


class DeclaredNumbers(Numbers, ps.AttachedConnector, ps.ListingConnector):
    """The same, declared."""


ABILITIES = {"size", "offer_at_most", "committed", "would_list", "attach", "detach"}


@pytest.mark.parametrize(
    ("source", "called"),
    [(Numbers(PlainReader, Plain), set()), (DeclaredNumbers(DeclaredReader, Sized), ABILITIES)],
    ids=["method names only", "base classes"],
)
def test_an_ability_is_used_if_a_base_class_declares_it(source: Numbers, called: set[str]) -> None:
    run = ps.read.source(source, time="ts").to.memory().start(master="inline", max_lead=1000, progress=False).wait()
    assert run.result().num_rows == ROWS.num_rows
    assert set(source.asked) == called


def test_the_size_of_a_split_may_be_a_field() -> None:
    @dataclass(frozen=True)
    class WithField(ps.SizedSplit):
        size: int

    assert WithField(8).size == 8


def test_a_declared_ability_that_is_not_written_is_refused() -> None:
    class Forgetful(ps.AcknowledgingReader):
        pass

    with pytest.raises(TypeError, match="committed"):
        Forgetful()  # type: ignore[abstract]
