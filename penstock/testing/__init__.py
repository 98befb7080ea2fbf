"""For tests of Penstock and of queries: the batch answer by DuckDB, comparison of rows, random ways to run a query.

It may import everything but bench, cli and spark.
"""

from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows
from penstock.testing.ways import Way, random_way

__all__ = ["Way", "assert_same_rows", "batch_answer", "random_way"]
