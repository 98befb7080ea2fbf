"""A filter with several outputs: each row goes to one of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.expr.evaluate.scalar import keep
from penstock.expr.tree import Expr, columns_of

_PLACE = "#place"


def outputs_of(rows: pa.Table, predicates: Sequence[Expr]) -> npt.NDArray[np.int64]:
    """The output of each row: the first predicate that is true for it, or one behind the last. A predicate sees only
    the rows that those before it have left."""
    outputs = np.full(rows.num_rows, len(predicates), dtype=np.int64)
    left = np.arange(rows.num_rows)
    for output, predicate in enumerate(predicates):
        taken = _taken(rows, left, predicate)
        outputs[taken] = output
        left = left[outputs[left] == len(predicates)]
    return outputs


def _taken(rows: pa.Table, places: npt.NDArray[np.int64], predicate: Expr) -> npt.NDArray[np.int64]:
    """The places, among the given ones, of the rows for which the predicate is true."""
    read = list(dict.fromkeys(columns_of(predicate)))
    placed = rows.select(read).append_column(_PLACE, pa.array(np.arange(rows.num_rows)))
    some = placed if len(places) == rows.num_rows else placed.take(pa.array(places))
    return np.asarray(keep(some, predicate).column(_PLACE).to_numpy())
