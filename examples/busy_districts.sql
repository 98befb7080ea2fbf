-- How busy is each district? Two million generated call records, up to 2 s out of order.
-- Run it with: penstock run examples/busy_districts.sql
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (
  connector = 'calls', rows = 2000000, rate = 20000, districts = 20, disorder = '2s', start = '2024-01-31 12:00:00'
);

CREATE SINK busy WITH (connector = 'files', path = 'busy-districts') AS
SELECT district, window_start, count(*) AS calls, avg(duration) AS mean_seconds
FROM HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)
GROUP BY district, window_start;
