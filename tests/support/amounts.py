"""How many cases an ordinary run has: a part of the random and of the crossed ones. PENSTOCK_ALL (`make test-all`) has
all of them.

Every run has another seed, so ordinary runs try other cases each time: random cases differ by themselves, and of a list
the seed says where to begin."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

_EVERYTHING = bool(os.environ.get("PENSTOCK_ALL"))
_SEED = int(os.environ.get("PENSTOCK_SEED") or 0)  # set by tests/conftest.py
_PART = 6  # an ordinary run has one random case in so many


def random_cases(number: int) -> range:
    """Return the numbers of the cases to run out of `number` random ones, for `parametrize`."""
    return range(number if _EVERYTHING else -(-number // _PART))


Case = TypeVar("Case")


def some_of(cases: Sequence[Case], part: int = 3) -> Sequence[Case]:
    """Return the cases to run out of a list, for `parametrize`: one in `part` in an ordinary run, and at least one."""
    return cases if _EVERYTHING else cases[_SEED % min(part, len(cases)) :: part]
