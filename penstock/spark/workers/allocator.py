"""Teaching the allocator of a worker to keep its memory.

The C library hands freed arrays above a threshold back to the kernel, and every epoch would fault them in again: a
third of the time of pre-aggregating 400,000 rows. Freeing one large array raises the threshold for the process. Arrow's
own allocator gives freed pages back after some milliseconds, so Arrow takes its memory from the C library, too.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

_BELOW_THE_MOST = 31 << 20  # the threshold grows to the size of what was freed, up to 32 MiB


@cache
def keep_freed_memory() -> None:
    """Once per process."""
    np.empty(_BELOW_THE_MOST, np.uint8)
    pa.set_memory_pool(pa.system_memory_pool())
