"""The full query of StreamCloud's evaluation, over call records: phones that seem to be in two places at once.

Of its full query the paper's text says that it has eight operators over a stream of integers, three of them stateful;
what they compute it does not say. This is a chain of that shape over the paper's call records, with the windows and the
meaning of the single operators that it measures:

1. map and filter: calls of more than three minutes;
2. join: two calls of one caller, reported within a minute of each other, with their distance in time and space;
3. map and filter: the caller moved faster than 0.5 km a second;
4. aggregate: such pairs of each caller, in a one-minute window which advances every ten seconds;
5. filter: two pairs or more;
6. aggregate: by the last two digits of the number, in the same windows: callers, pairs, the mean duration (map).

Distances are compared as squares, so that every system computes the same doubles. Times are whole milliseconds, as fine
as Flink's event time is, so its text needs no microseconds beside them.
"""

from __future__ import annotations

from penstock_bench.workload import Workload

_LONG = "SELECT caller, started_ms, duration, x, y, ts FROM calls WHERE duration > 180"
_WITHIN_A_MINUTE = "f.caller = l.caller AND l.ts > f.ts AND l.ts <= f.ts + INTERVAL '1' MINUTE"
# In km and ms: distance > 0.5 km/s * time, squared.
_TOO_FAST = """((l.x - f.x) * (l.x - f.x) + (l.y - f.y) * (l.y - f.y)) * 4000000
                > CAST(l.started_ms - f.started_ms AS DOUBLE) * CAST(l.started_ms - f.started_ms AS DOUBLE)"""
_FAST = f"""
            SELECT l.caller AS caller, l.duration AS duration, l.ts AS ts
            FROM long_call f JOIN long_call l ON {_WITHIN_A_MINUTE} AND {_TOO_FAST}"""

CALLS = Workload(
    name="calls",
    title="StreamCloud's full query: phones in two places at once",
    streams=("calls",),
    duckdb=f"""
        WITH long_call AS ({_LONG}), fast AS ({_FAST}), pane AS (
            SELECT caller, epoch_us(ts) // 10000000 AS pane, count(*) AS pairs, sum(duration) AS seconds
            FROM fast GROUP BY ALL
        ), suspect AS (
            SELECT caller, pane - step AS first_pane, sum(pairs)::BIGINT AS pairs, sum(seconds) AS seconds
            FROM pane, range(6) AS steps(step) GROUP BY ALL HAVING sum(pairs) >= 2
        )
        SELECT caller % 100 AS exchange, make_timestamp(first_pane * 10000000) AS window_start, count(*) AS callers,
            sum(pairs)::BIGINT AS pairs, sum(seconds) / sum(pairs) AS mean
        FROM suspect GROUP BY ALL""",
    penstock=f"""
        WITH long_call AS ({_LONG}), fast AS ({_FAST}), suspect AS (
            SELECT caller, window_start, count(*) AS pairs, sum(duration) AS seconds
            FROM HOP(fast, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE) GROUP BY caller, window_start
            HAVING count(*) >= 2
        )
        SELECT caller % 100 AS exchange, window_start, count(*) AS callers, sum(pairs) AS pairs,
            sum(seconds) / sum(pairs) AS mean
        FROM suspect GROUP BY caller % 100, window_start""",
    spark=f"""
        WITH long_call AS ({_LONG}), fast AS ({_FAST}), suspect AS (
            SELECT caller, window, count(*) AS pairs, sum(duration) AS seconds
            FROM fast GROUP BY caller, window(ts, '1 minute', '10 seconds') HAVING count(*) >= 2
        )
        SELECT caller % 100 AS exchange, window.start AS window_start, count(*) AS callers, sum(pairs) AS pairs,
            sum(seconds) / sum(pairs) AS mean
        FROM suspect GROUP BY caller % 100, window""",
    flink=f"""
        WITH long_call AS ({_LONG}), fast AS ({_FAST}), suspect AS (
            SELECT caller, window_start, window_end, COUNT(*) AS pairs, SUM(duration) AS seconds
            FROM TABLE(HOP(TABLE fast, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
            GROUP BY caller, window_start, window_end HAVING COUNT(*) >= 2
        )
        SELECT exchange, window_start, COUNT(*) AS callers, SUM(pairs) AS pairs, SUM(seconds) / SUM(pairs) AS mean
        FROM (SELECT MOD(caller, 100) AS exchange, window_start, window_end, pairs, seconds FROM suspect)
        GROUP BY exchange, window_start, window_end""",
    identity=("exchange", "window_start"),
    exact=("callers", "pairs"),
    close=("mean",),
    # Behind a join Spark holds its watermark back by the whole band, so windows close a minute later.
    closed="epoch_us(window_start) + 120000000 <= {mark}",
    spark_panes=f"""
        WITH long_call AS ({_LONG}), fast AS ({_FAST}), pane AS (
            SELECT caller, window AS pane, count(*) AS pairs, sum(duration) AS seconds
            FROM fast GROUP BY caller, window(ts, '10 seconds')
        ), suspect AS (
            SELECT caller, window, sum(pairs) AS pairs, sum(seconds) AS seconds
            FROM (SELECT caller, window_time(pane) AS ts, pairs, seconds FROM pane)
            GROUP BY caller, window(ts, '1 minute', '10 seconds') HAVING sum(pairs) >= 2
        )
        SELECT caller % 100 AS exchange, window.start AS window_start, count(*) AS callers, sum(pairs) AS pairs,
            sum(seconds) / sum(pairs) AS mean
        FROM suspect GROUP BY caller % 100, window""",
)

ALL = (CALLS,)
