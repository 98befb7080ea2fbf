"""Generations: the work on a range of hashes while some of its state is parked.

The state rows of a range, of all ports, are divided into generations. Fresh rows are joined with the youngest one only,
the active generation, of which they become a part; all others are parked. A clean-up merges two generations.

Invariants. The results that combine rows of a single generation have been produced, and no others. While there are
several generations, the marks of the range do not move. The oldest generation was worked on up to these marks. All
others were worked on up to BEGIN: their rows are not decided and do not expire, because a partner may be parked. The
oldest generation may expire as usual: a row of a younger one never lies below the mark of its own port.

    fresh rows and the active generation    apart(Portion(active, fresh, marks, marks))
    two generations, not the oldest         apart(Portion(older, younger, marks, marks, clean_up=True))
    the oldest generation and another       Portion(oldest, younger, marks, marks, clean_up=True)

A clean-up that leaves a single generation may also advance the marks to a later `upto`, unless fresh rows are pending.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.operators.protocol import Portion, ProbingOperator
from penstock.progress.mark import BEGIN, Marks


class Generational(ProbingOperator):
    """Base of operators whose state can be parked in generations: `work` accepts a portion that is a clean-up."""


def apart(portion: Portion) -> Portion:
    """Return the portion without progress: its rows are neither decided nor dropped, because the oldest generation is
    not among them."""
    start = beginning(portion.upto)
    return replace(portion, after=start, upto=start)


def beginning(marks: Marks) -> Marks:
    """Return marks on the same tracks at which nothing is decided: those up to which all generations but the oldest
    were worked on."""
    return tuple(BEGIN for _ in marks)
