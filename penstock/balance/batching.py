"""Batching: how much of the pending work of a site is done in an epoch, if its state does not fit into memory. Pure.

To join the rows of a range, the state of the range is looked up in files, whatever the number of rows. With little
memory an epoch takes in few rows, and an epoch that joined them all would look through the whole state for them: the
larger the state, the slower. So each epoch works on a part of the hashes only, and the rows of all others wait. When
their turn comes, more rows share the cost of looking their state up.

Rows wait only while sources have more of them: then it is throughput that counts. No rows wait longer than for
`MOST_TURNS` epochs, because that is how many parts there are at most. The ranges that have waited longest come first:
the site sorts its work by marks, and those of a range that waits stay behind.
"""

from __future__ import annotations

WORTH_ROWS = 4096  # pending rows for which state is looked up that fills the memory for it once
MOST_TURNS = 12  # parts of the hashes of a site; rows wait in as many runs, which are few enough not to be rewritten


def turns(arrived: int, stored_bytes: int, pages: int) -> int:
    """Return the number of epochs in which a site works on all of its hashes once, if `arrived` rows come in each.
    `pages` is the memory for the state that is looked up; a site whose state fits twice at most works on everything."""
    fillings = stored_bytes // max(1, pages)
    if fillings <= 2 or not arrived:
        return 1
    return max(1, min(MOST_TURNS, fillings * WORTH_ROWS // arrived))
