"""The state stores of Spark by name, apart from what needs Spark itself."""

from __future__ import annotations

ON_HEAP, IN_ROCKSDB = "heap", "rocksdb"
