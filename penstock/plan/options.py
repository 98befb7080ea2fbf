"""Compile options: the settings that change a query's state, or what happens to late rows."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.settings import Settings


@dataclass(frozen=True)
class CompileOptions:
    """The options of compilation. `hash_bits` below 64 makes keys collide, for tests. With `in_order`, mergers hold
    rows back and process them in order of time. `grid` is the rows and columns of cells of a theta join (None: follows
    the number of sites). With `late_by_window`, a row below the punctuation is late only for its closed windows, not as
    a whole."""

    hash_bits: int = 64
    in_order: bool = False
    grid: tuple[int, int] | None = None
    late_by_window: bool = True

    @classmethod
    def of(cls, settings: Settings) -> CompileOptions:
        """Return the options that the settings ask for."""
        return cls(settings.hash_bits, settings.order == "in", settings.cells, settings.lateness == "window")

    def orders(self, operator: Operator) -> bool:
        """Return whether the merger before an operator must put rows in order; `Reorder` does so itself."""
        return self.in_order and not isinstance(operator, Reorder)
