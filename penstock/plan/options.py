"""What a query is compiled with: choices that change its state, and of late rows what becomes of them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.operators.protocol import Operator
from penstock.operators.reorder import Reorder
from penstock.settings import Settings


@dataclass(frozen=True)
class CompileOptions:
    """`hash_bits` below 64 makes keys collide, for tests. `in_order`: mergers hold rows back and work in order of time.
    `grid`: the rows and columns of cells over which a theta join is spread; None: as the number of sites calls for.
    `late_by_window`: a row below the punctuation is late for its closed windows only, not as a whole."""

    hash_bits: int = 64
    in_order: bool = False
    grid: tuple[int, int] | None = None
    late_by_window: bool = True

    @classmethod
    def of(cls, settings: Settings) -> CompileOptions:
        return cls(settings.hash_bits, settings.order == "in", settings.cells, settings.lateness == "window")

    def orders(self, operator: Operator) -> bool:
        """Whether the merger before an operator puts rows in order; one that does so itself needs no help."""
        return self.in_order and not isinstance(operator, Reorder)
