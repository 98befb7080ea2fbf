"""Make the allocator of a worker keep freed memory.

The C library returns freed arrays above a threshold to the kernel, and every epoch would fault their pages in again: a
third of the time of pre-aggregating 400,000 rows. Freeing one large array raises the threshold for the process. Arrow's
own allocator returns freed pages after some milliseconds, so Arrow is switched to the C library's allocator.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa

_BELOW_THE_MOST = 31 << 20  # bytes; the threshold grows to the size of the freed array, up to 32 MiB


@cache
def keep_freed_memory() -> None:
    """Raise the threshold and switch Arrow's allocator, once per process."""
    np.empty(_BELOW_THE_MOST, np.uint8)
    pa.set_memory_pool(pa.system_memory_pool())
