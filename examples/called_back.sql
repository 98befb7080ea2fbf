-- Who is called back within half a minute? Two hundred thousand generated call records, joined with themselves.
-- Run it with: penstock run examples/called_back.sql
CREATE SOURCE calls (WATERMARK FOR ts AS ts - INTERVAL '2' SECOND) WITH (
  connector = 'calls', rows = 200000, rate = 1000, keys = 300, disorder = '2s', start = '2024-01-31 12:00:00'
);

CREATE VIEW called_back AS
SELECT a.caller, a.callee, a.ts, epoch(b.ts) - epoch(a.ts) AS after
FROM calls a JOIN calls b
ON a.caller = b.callee AND a.callee = b.caller AND a.caller <> b.caller
  AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '30' SECOND;

CREATE SINK answered WITH (connector = 'files', path = 'answered') AS
SELECT window_start, count(*) AS calls_back, min(after) AS soonest
FROM TUMBLE(called_back, ts, INTERVAL '20' SECOND)
GROUP BY window_start;
