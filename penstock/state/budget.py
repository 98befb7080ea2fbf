"""The memory of a site, and how it is divided. Pure.

Everything that grows with the data is cut to a share of the budget: rows that arrive, rows that an item works on, rows
that are merged, and pages of state that stay resident. State itself is in files and takes memory only while it is read.
"""

from __future__ import annotations

from dataclasses import dataclass

MEGABYTE = 1 << 20
USUAL = 2048 * MEGABYTE  # of a site, where the memory of the machine is not known
PART_OF_MACHINE = 0.5  # for all sites together; the rest is for the driver, Spark, and the page cache


@dataclass(frozen=True)
class Budget:
    """The bytes that a site may use, beyond what an idle worker needs. The shares add up to less than all of it, since
    kernels need working space, about as much as the rows of an item take."""

    total: int

    @property
    def pages(self) -> int:
        """Return the bytes of state that may be resident because they were read."""
        return max(1, self.total // 8)

    @property
    def arrivals(self) -> int:
        """Return the bytes of arriving rows that a site works on from memory; more are written to files first."""
        return max(1, self.total // 8)

    @property
    def item(self) -> int:
        """Return the most bytes of the rows of a work item, unless they have one hash."""
        return max(1, min(256 * MEGABYTE, self.total // 16))

    @property
    def piece(self) -> int:
        """Return the bytes of state that are merged at once, into one run."""
        return max(1, min(64 * MEGABYTE, self.total // 16))

    @property
    def run(self) -> int:
        """Return the most bytes of a run, unless it is one row."""
        return max(1, min(256 * MEGABYTE, self.total // 8))


def budget_for(memory: int | None, machine: int, sites: int) -> Budget:
    """Return the budget of a site: `memory` if it is given, or else the share of one of `sites` sites on a machine with
    so many bytes (0: not known)."""
    if memory:
        return Budget(memory)
    return Budget(int(machine * PART_OF_MACHINE) // max(1, sites) if machine else USUAL)
