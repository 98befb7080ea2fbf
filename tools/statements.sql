-- A source. Without columns the connector says what they are; the watermark is always needed.
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'calls', rows = 1000);

-- A source with declared columns. A watermark without a span says that rows come in order.
CREATE SOURCE archive (caller BIGINT, district INTEGER, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'files', path = 'archive/*.csv', delimiter = ';', follow = true);

-- A view: a query under a name. `IF NOT EXISTS` leaves what is there alone, also of sources and sinks.
CREATE VIEW IF NOT EXISTS long_calls AS
SELECT caller, duration / 60 AS minutes, ts FROM calls WHERE duration > 600;

-- A sink, of a query. `window_start` or `window_end` has to be among what is grouped by.
CREATE SINK busy WITH (connector = 'files', path = 'busy') AS
SELECT district, window_start, window_end, count(*) AS n
FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE)
GROUP BY district, window_start, window_end;

-- A sink, of a source or a view.
CREATE SINK kept FROM long_calls WITH (connector = 'files', path = 'kept');

-- A query without a sink prints to the terminal.
SELECT caller, ts FROM calls WHERE duration > 3000;

-- Windows that slide: first the slide, then the size. WHERE is about rows, HAVING about groups.
SELECT district, window_start, avg(duration) AS mean
FROM HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)
WHERE duration > 0
GROUP BY district, window_start
HAVING count(*) > 10;

-- The same window in brackets, which GROUP BY need not name. `SLIDE` and `WA`, the time column, may be left out.
SELECT district, window_start, avg(duration) AS mean
FROM calls [RANGE 1 MINUTE SLIDE 10 SECONDS WA ts]
GROUP BY district;

-- The same window as Flink writes it.
SELECT district, window_start, avg(duration) AS mean
FROM TABLE(HOP(TABLE calls, DESCRIPTOR(ts), INTERVAL '10' SECOND, INTERVAL '1' MINUTE))
GROUP BY district, window_start;

-- An aggregate over some rows of a group, and one over distinct values; a last argument of a window is its offset.
SELECT window_start, sum(duration) FILTER (WHERE district = 7) AS seconds, count(DISTINCT caller) AS callers
FROM TUMBLE(calls, ts, INTERVAL '1' DAY, INTERVAL '6' HOUR)
GROUP BY window_start;

-- A setting of the run. What the command line says is stronger.
SET sites = 4;
