"""Numbers of random cases: a third of them in an ordinary run, all of them in one with PENSTOCK_ALL (`make test-all`).

Every run has another seed, so that ordinary runs try other cases each time."""

from __future__ import annotations

import os

_EVERYTHING = bool(os.environ.get("PENSTOCK_ALL"))


def random_cases(number: int) -> range:
    """Return the numbers of the cases to run out of `number` random ones, for `parametrize`."""
    return range(number if _EVERYTHING else -(-number // 3))
