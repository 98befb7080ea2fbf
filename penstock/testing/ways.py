"""Ways to run a query: settings that must not change its result, drawn at random from a seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any


@dataclass(frozen=True)
class Way:
    """Settings of a run that must not change its rows."""

    sites: int = 2
    groups_per_site: int = 16
    items: int | None = None
    item_rows: int = 1_000_000
    rows_per_epoch: int | None = None
    hash_bits: int = 64
    flush: str = "eager"
    max_delay: int = 1
    memory: int | None = None

    def settings(self) -> dict[str, Any]:
        """Return the settings as options of `start`."""
        return asdict(self)


def random_ways(random: Random) -> tuple[Way, ...]:
    """Draw the ways of a run and its restarts; mostly one. `hash_bits` is fixed by the checkpoint, so it is the same in
    all."""
    first, *others = (random_way(random) for _ in range(random.choice([1, 1, 1, 2, 3])))
    return (first, *(replace(way, hash_bits=first.hash_bits) for way in others))


def random_way(random: Random) -> Way:
    """Draw one way at random."""
    return Way(
        sites=random.choice([1, 2, 3, 7]),
        groups_per_site=random.choice([1, 2, 16]),
        items=random.choice([None, None, 1, 2, 5]),
        item_rows=random.choice([1, 3, 20, 1_000_000]),
        rows_per_epoch=random.choice([1, 7, 50, 1_000_000]),
        hash_bits=random.choice([64, 64, 8, 0]),
        flush=random.choice([*["eager"] * 4, "slow", "lazy"]),  # the other two make small queries three times as slow
        max_delay=random.choice([1, 2, 5]),
        memory=random.choice([None, None, None, None, None, 4_000, 50_000]),
    )
