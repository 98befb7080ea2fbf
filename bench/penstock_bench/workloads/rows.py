"""Questions about rows rather than groups: which keys occurred."""

from __future__ import annotations

from penstock_bench.workload import Workload

DISTINCT = Workload(
    name="distinct",
    title="distinct keys of 10 s windows, 100,000 keys",
    streams=("a",),
    duckdb="SELECT DISTINCT k, time_bucket(INTERVAL '10 seconds', ts) AS window_start FROM a",
    penstock="SELECT DISTINCT k, window_start FROM TUMBLE(a, ts, INTERVAL '10' SECOND)",
    spark="SELECT k, window.start AS window_start FROM a GROUP BY k, window(ts, '10 seconds')",
    flink="""
        SELECT k, window_start FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '10' SECOND))
        GROUP BY k, window_start, window_end""",
    identity=("k", "window_start"),
    closed="epoch_us(window_start) + 10000000 <= {mark}",
)

ALL = (DISTINCT,)
