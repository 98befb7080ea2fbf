"""Type aliases for the arrays that kernels take and return."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Flags = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.int64]  # positions of rows
Times = npt.NDArray[np.int64]  # event times, in the unit of their column
Words = npt.NDArray[np.uint64]  # hashes and other unsigned sort keys
