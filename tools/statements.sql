-- A source. Without columns the connector says what they are; the watermark is always needed.
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND)
WITH (connector = 'calls', rows = 1000);

-- A source with declared columns. A watermark without a span says that rows come in order.
CREATE SOURCE archive (caller BIGINT, district INTEGER, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH (connector = 'files', path = 'archive/*.csv', delimiter = ';', follow = true);

-- A source that says itself how far it has come: by rows for which a condition holds. `KEEP ROWS` keeps them as rows. Others
-- stop waiting for a source, or for one of its files where `substreams` is `files`, that has had no rows for the time `idle`.
CREATE SOURCE alarms (district INTEGER, code VARCHAR, ts TIMESTAMP, WATERMARK FOR ts BY PUNCTUATION WHERE code = 'tick')
WITH (connector = 'files', path = 'alarms/*.json', follow = true, substreams = 'files', idle = '30s');

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

-- A sink that gets its rows in order of time: `in_order = true`, or `in_order_by` for rows with equal values of some columns, which
-- need not all pass through one site.
CREATE SINK told FROM long_calls WITH (connector = 'files', path = 'told', in_order_by = 'caller');

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

-- Sessions: rows of a key that follow each other in less than the gap.
SELECT caller, window_start, window_end, count(*) AS n
FROM SESSION(calls, ts, INTERVAL '5' MINUTE)
GROUP BY caller, window_start, window_end;

-- Windows of rows, counted where the source is read, before any filter; the borders are numbers.
SELECT window_start, max(duration) AS longest
FROM calls [ROWS 100 SLIDE 10];

-- Rows of equal time, without a window.
SELECT ts, count(*) AS n FROM calls GROUP BY ts;

-- Rows with the windows they are in, each row once per window.
SELECT window_start, caller, duration
FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE);

-- Equal rows once. One of the columns has to be a time.
SELECT DISTINCT window_start, caller
FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE);

-- The first rows of each group; here the three longest calls of each district and minute. Without a time in PARTITION BY they
-- are known when the stream has ended.
SELECT window_start, district, caller, duration
FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE)
QUALIFY ROW_NUMBER() OVER (PARTITION BY window_start, district ORDER BY duration DESC) <= 3;

-- The same as Flink writes it.
SELECT * FROM (
  SELECT window_start, district, caller, duration,
         ROW_NUMBER() OVER (PARTITION BY window_start, district ORDER BY duration DESC) AS place
  FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE))
WHERE place <= 3;

-- A join: equal keys, and a bound on how far the times may lie apart: comparisons, or equal buckets as in
-- `date_trunc('minute', c.ts) = date_trunc('minute', a.ts)`. There are `JOIN`, `LEFT`, `RIGHT`, `FULL`, `SEMI` and `ANTI JOIN`,
-- with `ON` or `USING`. A column whose name is taken is called as its stream and itself: `a_ts`.
SELECT c.caller, c.ts, a.code, a.ts AS alarm
FROM calls c LEFT JOIN alarms a
ON c.district = a.district AND c.ts BETWEEN a.ts - INTERVAL '1' SECOND AND a.ts + INTERVAL '10' SECOND;

-- Joins of several streams by the same key are one operator.
SELECT c.caller, a.code, r.caller AS other
FROM calls c
JOIN alarms a ON c.district = a.district AND a.ts BETWEEN c.ts - INTERVAL '5' SECOND AND c.ts + INTERVAL '5' SECOND
JOIN archive r ON c.district = r.district AND r.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND;

-- A join within windows.
SELECT x.window_start, x.caller, y.code
FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE) x
JOIN TUMBLE(alarms, ts, INTERVAL '1' MINUTE) y ON x.district = y.district AND x.window_start = y.window_start;

-- A theta join: any condition, and a bound on the times.
SELECT c.caller, a.code
FROM calls c JOIN alarms a
ON c.district < a.district AND a.ts BETWEEN c.ts AND c.ts + INTERVAL '5' SECOND;

-- The joins of the papers: each row with those that are in the window of the other stream when it comes.
SELECT calls.caller, alarms.code
FROM calls [RANGE 3 MINUTES], alarms [RANGE 2 MINUTES]
WHERE calls.district = alarms.district;

-- The same over the last rows of each stream.
SELECT calls.caller, alarms.code
FROM calls [ROWS 100], alarms [ROWS 10]
WHERE calls.district = alarms.district;

-- An aggregate over a join, in the window of one of its times; the window may stand behind the select list.
SELECT a.code, count(*) AS calls [RANGE 1 MINUTE WA c.ts]
FROM calls c JOIN alarms a ON c.district = a.district AND a.ts BETWEEN c.ts - INTERVAL '10' SECOND AND c.ts
GROUP BY a.code;

-- A union takes columns by position; without `ALL` equal rows come once.
SELECT caller, ts FROM calls UNION ALL SELECT caller, ts FROM archive;

-- Names for queries, before a query.
WITH busy_minutes AS (
  SELECT district, window_start, count(*) AS n FROM TUMBLE(calls, ts, INTERVAL '1' MINUTE) GROUP BY district, window_start)
SELECT window_start, max(n) AS most FROM busy_minutes GROUP BY window_start;

-- A setting of the run. What the command line says is stronger.
SET sites = 4;
