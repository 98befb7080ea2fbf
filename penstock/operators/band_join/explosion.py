"""Detection of a key with very many combinations before they are computed.

A join computes every combination, whatever it costs; the user should be warned in time. For two inputs the count within
the bands is exact, before any further condition.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.kernels.arrays import Indices, Times, Words
from penstock.operators.arrange import hashes_of, times_of
from penstock.operators.bands import Leads
from penstock.operators.protocol import Explosion, Portion
from penstock.operators.theta_join.ranges import band_ranges
from penstock.state.hash_ranges import point

COMBINATIONS = 100_000_000  # of one key in one portion: from here on it is reported
_LOOKED_AT = 8  # number of largest keys to examine
_KEY_LENGTH = 80


@dataclass(frozen=True)
class _Rows:
    """Sorted rows of one input: the fresh table, and the stored tables."""

    fresh: pa.Table
    stored: tuple[pa.Table, ...]

    @property
    def total(self) -> int:
        """Return the number of rows, fresh and stored."""
        return sum(int(table.num_rows) for table in (self.fresh, *self.stored))

    def counts(self, hashes: Words) -> Indices:
        """Return the number of rows of each hash."""
        return sum((_counts(table, hashes) for table in (self.fresh, *self.stored)), np.zeros(len(hashes), np.int64))

    def times(self, hash_: int, fresh: bool) -> Times:
        """Return the sorted times of a hash's stored rows and, with `fresh`, of its fresh rows."""
        tables = (*self.stored, self.fresh) if fresh else self.stored
        parts = [times_of(table[point(hash_).rows(hashes_of(table))]) for table in tables]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def explosion(
    portion: Portion, keys: Sequence[Sequence[str]], leads: Leads, known: Collection[int]
) -> Explosion | None:
    """Return the key with the most combinations if there are at least COMBINATIONS of them and its hash is not in
    `known`."""
    inputs = [
        _Rows(fresh, tuple(part.rows for part in stored))
        for fresh, stored in zip(portion.fresh, portion.stored, strict=True)
    ]
    if math.prod(part.total for part in inputs) < COMBINATIONS:
        return None
    hashes = np.unique(np.concatenate([_of_large_groups(inputs, port) for port in range(len(inputs))]))
    counts = np.stack([part.counts(hashes) for part in inputs])
    most = np.prod(counts.astype(np.float64), axis=0)
    for place in np.argsort(-most)[:_LOOKED_AT].tolist():
        hash_, key = int(hashes[place]), _key(inputs, keys, int(hashes[place]))
        if most[place] < COMBINATIONS:
            return None
        if hash_ not in known and key is not None and (found := _combinations(inputs, leads, hash_)) >= COMBINATIONS:
            return Explosion(hash_, key, tuple(counts[:, place].tolist()), found)
    return None


def _of_large_groups(inputs: Sequence[_Rows], port: int) -> Words:
    """Return the hashes of a port that have enough fresh rows to reach COMBINATIONS, and possibly others. Rows are
    sorted by hash, so a group of at least n rows contains every n-th row of the table at least once."""
    others = math.prod(part.total for n, part in enumerate(inputs) if n != port)
    enough = max(1, COMBINATIONS // max(1, others))
    return hashes_of(inputs[port].fresh)[enough - 1 :: enough]


def _counts(table: pa.Table, hashes: Words) -> Indices:
    """Return the number of rows of each hash in a sorted table."""
    own = hashes_of(table)
    return np.searchsorted(own, hashes, "right") - np.searchsorted(own, hashes, "left")


def _combinations(inputs: Sequence[_Rows], leads: Leads, hash_: int) -> int:
    """Return the number of combinations of a hash, counting partners within the bands of the fresh row they start
    from."""
    total = 0.0
    for port, own in enumerate(inputs):
        probes = times_of(own.fresh[point(hash_).rows(hashes_of(own.fresh))])
        each = np.ones(len(probes))
        for other, part in enumerate(inputs):
            if other != port:
                partners = part.times(hash_, fresh=other < port)
                each *= band_ranges(probes, partners, leads[other][port], leads[port][other]).sizes
        total += float(each.sum())
    return int(total)


def _key(inputs: Sequence[_Rows], keys: Sequence[Sequence[str]], hash_: int) -> str | None:
    """Return the values of a key as text; None if one is null, because such a key joins nothing."""
    for part, names in zip(inputs, keys, strict=True):
        if (rows := part.fresh[point(hash_).rows(hashes_of(part.fresh))]).num_rows:
            values = [rows.column(name)[0].as_py() for name in names]
            return None if None in values else ", ".join(map(str, values))[:_KEY_LENGTH]
    return None
