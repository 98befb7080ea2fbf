"""Windows over stream `a`: aggregates, tumbling with many keys and sliding with few."""

from __future__ import annotations

from penstock_bench.workload import Workload

TUMBLE = Workload(
    name="tumble",
    title="10 s tumbling window, 100,000 keys",
    streams=("a",),
    duckdb="""
        SELECT k, time_bucket(INTERVAL '10 seconds', ts) AS window_start, count(*) AS n, sum(v) AS s
        FROM a GROUP BY ALL""",
    penstock="""
        SELECT k, window_start, count(*) AS n, sum(v) AS s
        FROM TUMBLE(a, ts, INTERVAL '10' SECOND)
        GROUP BY k, window_start""",
    spark="""
        SELECT k, window.start AS window_start, count(*) AS n, sum(v) AS s
        FROM a GROUP BY k, window(ts, '10 seconds')""",
    flink="""
        SELECT k, window_start, COUNT(*) AS n, SUM(v) AS s
        FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY k, window_start, window_end""",
    identity=("k", "window_start"),
    exact=("n",),
    close=("s",),
    closed="epoch_us(window_start) + 10000000 <= {mark}",
)

# In batch each row falls into one pane of a second, and a window adds up its 60 panes.
_PANES_IN_BATCH = """
        WITH pane AS (
            SELECT k % 100 AS k, epoch_us(ts) // 1000000 AS pane, count(*) AS n, sum(v) AS s FROM a GROUP BY ALL
        ), placed AS (
            SELECT k, pane - step AS first_pane, n, s FROM pane, range(60) AS steps(step)
        )
        SELECT k, make_timestamp(first_pane * 1000000) AS window_start, sum(n)::BIGINT AS n, sum(s) AS s
        FROM placed GROUP BY k, first_pane"""

# One aggregate per slide and a second one that adds these up, so that a row is not copied into each of its windows.
_PANES_ON_SPARK = """
        SELECT k, window.start AS window_start, sum(n) AS n, sum(s) AS s
        FROM (
            SELECT k, window_time(window) AS pane, n, s
            FROM (
                SELECT k % 100 AS k, window, count(*) AS n, sum(v) AS s FROM a GROUP BY k % 100, window(ts, '1 second')
            )
        )
        GROUP BY k, window(pane, '60 seconds', '1 second')"""

SLIDE = Workload(
    name="slide",
    title="60 s window sliding by 1 s, 100 keys",
    streams=("a",),
    duckdb=_PANES_IN_BATCH,
    penstock="""
        SELECT k % 100 AS k, window_start, count(*) AS n, sum(v) AS s
        FROM HOP(a, ts, INTERVAL '1' SECOND, INTERVAL '60' SECOND)
        GROUP BY k % 100, window_start""",
    spark="""
        SELECT k % 100 AS k, window.start AS window_start, count(*) AS n, sum(v) AS s
        FROM a GROUP BY k % 100, window(ts, '60 seconds', '1 second')""",
    flink="""
        SELECT MOD(k, 100) AS k, window_start, COUNT(*) AS n, SUM(v) AS s
        FROM TABLE(HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '1' SECOND, INTERVAL '60' SECOND))
        GROUP BY MOD(k, 100), window_start, window_end""",
    identity=("k", "window_start"),
    exact=("n",),
    close=("s",),
    closed="epoch_us(window_start) + 60000000 <= {mark}",
    spark_panes=_PANES_ON_SPARK,
)

ALL = (TUMBLE, SLIDE)
