"""Numbers of random cases: a third of them in an ordinary run, all of them in one with PENSTOCK_ALL (`make test-all`).

Every run has another seed, so that ordinary runs try other cases each time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

_EVERYTHING = bool(os.environ.get("PENSTOCK_ALL"))


def random_cases(number: int) -> range:
    """Return the numbers of the cases to run out of `number` random ones, for `parametrize`."""
    return range(number if _EVERYTHING else -(-number // 3))


Case = TypeVar("Case")


def some_of(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases to run out of a list, for `parametrize`: every third in an ordinary run."""
    return cases if _EVERYTHING else cases[::3]
