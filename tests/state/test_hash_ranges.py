"""Places of hashes in sorted columns."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.hash_ranges import place_of

KINDS = st.sampled_from(["uniform", "one hash", "two ends", "narrow"])


@given(st.integers(0, 2**32), KINDS, st.sampled_from([20_000, 50_000]))
@settings(max_examples=60)
def test_a_hash_is_found_where_a_search_through_all_finds_it(seed: int, kind: str, count: int) -> None:
    """Whether hashes are uniform or not: then the place is not where it is expected."""
    random = np.random.default_rng(seed)
    match kind:
        case "uniform":
            hashes = random.integers(0, 2**64, count, np.uint64)
        case "one hash":
            hashes = np.full(count, random.integers(0, 2**64, dtype=np.uint64))
            hashes[: count // 10] = random.integers(0, 2**64, count // 10, np.uint64)
        case "two ends":
            hashes = np.concatenate([np.arange(count // 2, dtype=np.uint64), ~np.arange(count // 2, dtype=np.uint64)])
        case _:
            hashes = random.integers(2**40, 2**40 + 50, count, np.uint64)
    hashes.sort()
    some = [0, 1, 2**64 - 1, *random.integers(0, 2**64, 5, np.uint64).tolist(), *random.choice(hashes, 20).tolist()]
    near = {min(2**64 - 1, max(0, hash_ + by)) for hash_ in some for by in (-1, 0, 1)}
    for hash_ in near:
        assert place_of(hash_, hashes) == int(np.searchsorted(hashes, np.uint64(hash_)))
