"""Kit for testing queries: the batch answer by DuckDB, comparison of rows, random orders of arrival, random settings.

    assert_exact(query)                 the query gives the batch answer under random settings
    batch_answer(query)                 the same query over all rows at once, by DuckDB
    assert_same_rows(got, want)         two tables have the same rows, in any order
    disordered(random, rows, slack)     an order of arrival; cut(random, rows) divides it into batches
    random_way(random)                  a Way: settings of a run that must not change its result

May import every package except bench, cli and spark.
"""

from penstock.testing.arrivals import cut, disordered
from penstock.testing.oracle import batch_answer
from penstock.testing.rows import assert_same_rows
from penstock.testing.runs import assert_exact
from penstock.testing.ways import Way, random_way

__all__ = ["Way", "assert_exact", "assert_same_rows", "batch_answer", "cut", "disordered", "random_way"]
