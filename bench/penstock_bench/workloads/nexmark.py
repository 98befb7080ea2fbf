"""NEXMark, the queries of an on-line auction, over generated people, auctions and bids.

Numbers and meanings are those of the benchmark, but each query must be answerable while the streams go on, without
taking results back. Therefore:

- q3 joins a person with auctions from 10 s before to 60 s after the registration; the benchmark sets no bound.
- q4 averages the closing prices of the auctions that were opened in the same 10 s; the benchmark has one average of all
  so far, corrected with every auction that closes. The price is that of the highest bid while the auction was open.
- q7 breaks ties: of equally high bids, the one with the largest auction, bidder and time.

q5 counts in windows of 10 s that slide by 2 s, and gives all auctions where several have the most bids.

All times are whole milliseconds, as fine as Flink's event time is, so its texts need no microseconds beside them.
"""

from __future__ import annotations

from penstock_bench.workload import Workload

_TEN = "INTERVAL '10' SECOND"
_BUCKET = "time_bucket(INTERVAL '10 seconds', ts)"

Q0_TEXT = "SELECT auction, bidder, price, ts FROM bid"
Q0 = Workload(
    name="q0",
    title="NEXMark q0: pass bids through",
    streams=("bid",),
    duckdb=Q0_TEXT,
    penstock=Q0_TEXT,
    spark=Q0_TEXT,
    flink=Q0_TEXT,
    identity=("auction", "bidder", "price", "ts"),
)

Q1_TEXT = "SELECT auction, bidder, CAST(price AS DOUBLE) * CAST(0.908 AS DOUBLE) AS euros, ts FROM bid"
Q1 = Workload(
    name="q1",
    title="NEXMark q1: prices in another currency",
    streams=("bid",),
    duckdb=Q1_TEXT,
    penstock=Q1_TEXT,
    spark=Q1_TEXT,
    flink=Q1_TEXT,
    identity=("auction", "bidder", "ts"),
    close=("euros",),
)

Q2_TEXT = "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"
Q2 = Workload(
    name="q2",
    title="NEXMark q2: bids of some auctions",
    streams=("bid",),
    duckdb=Q2_TEXT,
    penstock=Q2_TEXT,
    spark=Q2_TEXT,
    flink=Q2_TEXT,
    identity=("auction", "price"),
)

Q3_TEXT = """
        SELECT p.name AS name, p.city AS city, p.state AS state, a.id AS id
        FROM auction a JOIN person p ON a.seller = p.id
            AND a.ts BETWEEN p.ts - INTERVAL '10' SECOND AND p.ts + INTERVAL '60' SECOND
        WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')"""
Q3 = Workload(
    name="q3",
    title="NEXMark q3: who sells in a category and some states",
    streams=("auction", "person"),
    duckdb=Q3_TEXT,
    penstock=Q3_TEXT,
    spark=Q3_TEXT,
    flink=Q3_TEXT,
    identity=("name", "city", "state", "id"),
)

# No auction is open for more than 20 s; the bound in time says so to systems that cannot know it from `expires`.
_BIDS_WHILE_OPEN = """auction a JOIN bid b ON a.id = b.auction AND b.ts <= a.expires
                AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '20' SECOND"""
Q4 = Workload(
    name="q4",
    title="NEXMark q4: average closing price by category",
    streams=("auction", "bid"),
    duckdb=f"""
        WITH closed AS (
            SELECT a.id, a.category, a.ts, max(b.price) AS price FROM {_BIDS_WHILE_OPEN} GROUP BY ALL
        )
        SELECT category, {_BUCKET} AS window_start, avg(price) AS price FROM closed GROUP BY ALL""",
    penstock=f"""
        WITH closed AS (
            SELECT a.id, a.category, a.ts, max(b.price) AS price FROM {_BIDS_WHILE_OPEN}
            GROUP BY a.id, a.category, a.ts
        )
        SELECT category, window_start, avg(price) AS price
        FROM TUMBLE(closed, ts, {_TEN}) GROUP BY category, window_start""",
    spark=f"""
        SELECT category, window.start AS window_start, avg(price) AS price
        FROM (
            SELECT a.id AS id, a.category AS category, a.ts AS ts, max(b.price) AS price FROM {_BIDS_WHILE_OPEN}
            GROUP BY a.id, a.category, a.ts
        )
        GROUP BY category, window(ts, '10 seconds')""",
    flink=f"""
        WITH open_bid AS (
            SELECT a.id AS id, a.category AS category, a.ts AS ts, b.price AS price FROM {_BIDS_WHILE_OPEN}
        )
        SELECT category, window_start, AVG(CAST(price AS DOUBLE)) AS price
        FROM (
            SELECT id, category, window_start, window_end, MAX(price) AS price
            FROM TABLE(TUMBLE(TABLE open_bid, DESCRIPTOR(ts), {_TEN})) GROUP BY id, category, window_start, window_end
        )
        GROUP BY category, window_start, window_end""",
    identity=("category", "window_start"),
    close=("price",),
    closed="epoch_us(window_start) + 30000000 <= {mark}",
)

Q5 = Workload(
    name="q5",
    title="NEXMark q5: auctions with most bids in 10 s, every 2 s",
    streams=("bid",),
    duckdb="""
        WITH pane AS (
            SELECT auction, epoch_us(ts) // 2000000 AS pane, count(*) AS n FROM bid GROUP BY ALL
        ), counted AS (
            SELECT auction, pane - step AS first_pane, sum(n)::BIGINT AS n
            FROM pane, range(5) AS steps(step) GROUP BY ALL
        ), most AS (
            SELECT first_pane, max(n) AS n FROM counted GROUP BY ALL
        )
        SELECT auction, make_timestamp(first_pane * 2000000) AS window_start, n
        FROM counted SEMI JOIN most USING (first_pane, n)""",
    penstock="""
        WITH counted AS (
            SELECT auction, window_start, count(*) AS n
            FROM HOP(bid, ts, INTERVAL '2' SECOND, INTERVAL '10' SECOND) GROUP BY auction, window_start
        ), most AS (
            SELECT window_start, max(n) AS n FROM counted GROUP BY window_start
        )
        SELECT c.auction AS auction, c.window_start AS window_start, c.n AS n
        FROM counted c JOIN most m ON c.window_start = m.window_start AND c.n = m.n""",
    spark="""
        WITH counted AS (
            SELECT auction, window, count(*) AS n FROM bid GROUP BY auction, window(ts, '10 seconds', '2 seconds')
        ), most AS (
            SELECT window, max(n) AS n FROM counted GROUP BY window
        )
        SELECT c.auction AS auction, c.window.start AS window_start, c.n AS n
        FROM counted c JOIN most m ON c.window = m.window AND c.n = m.n""",
    flink="""
        WITH counted AS (
            SELECT auction, window_start, window_end, COUNT(*) AS n
            FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
            GROUP BY auction, window_start, window_end
        ), most AS (
            SELECT window_start, window_end, MAX(n) AS n FROM counted GROUP BY window_start, window_end
        )
        SELECT c.auction AS auction, c.window_start AS window_start, c.n AS n
        FROM counted c JOIN most m
            ON c.window_start = m.window_start AND c.window_end = m.window_end AND c.n = m.n""",
    identity=("auction", "window_start"),
    exact=("n",),
    closed="epoch_us(window_start) + 10000000 <= {mark}",
    spark_panes="""
        WITH pane AS (
            SELECT auction, window AS pane, count(*) AS n FROM bid GROUP BY auction, window(ts, '2 seconds')
        ), counted AS (
            SELECT auction, window, sum(n) AS n FROM (SELECT auction, window_time(pane) AS ts, n FROM pane)
            GROUP BY auction, window(ts, '10 seconds', '2 seconds')
        ), most AS (
            SELECT window, max(n) AS n FROM counted GROUP BY window
        )
        SELECT c.auction AS auction, c.window.start AS window_start, c.n AS n
        FROM counted c JOIN most m ON c.window = m.window AND c.n = m.n""",
)

Q7 = Workload(
    name="q7",
    title="NEXMark q7: highest bid of each 10 s",
    streams=("bid",),
    duckdb=f"""
        WITH highest AS (
            SELECT {_BUCKET} AS window_start, max(price) AS price FROM bid GROUP BY ALL
        )
        SELECT window_start, auction, bidder, price, ts
        FROM (SELECT *, {_BUCKET} AS window_start FROM bid) SEMI JOIN highest USING (window_start, price)
        QUALIFY row_number() OVER (PARTITION BY window_start ORDER BY auction DESC, bidder DESC, ts DESC) = 1""",
    penstock=f"""
        SELECT window_start, auction, bidder, price, ts FROM TUMBLE(bid, ts, {_TEN})
        QUALIFY ROW_NUMBER() OVER (
            PARTITION BY window_start ORDER BY price DESC, auction DESC, bidder DESC, ts DESC) = 1""",
    spark="""
        SELECT window.start AS window_start, highest.auction AS auction, highest.bidder AS bidder,
            highest.price AS price, highest.ts AS ts
        FROM (
            SELECT window, max(struct(price, auction, bidder, ts)) AS highest FROM bid GROUP BY window(ts, '10 seconds')
        )""",
    flink=f"""
        SELECT window_start, auction, bidder, price, ts
        FROM (
            SELECT window_start, auction, bidder, price, ts, ROW_NUMBER() OVER (
                PARTITION BY window_start, window_end
                ORDER BY price DESC, auction DESC, bidder DESC, ts DESC) AS place
            FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), {_TEN}))
        )
        WHERE place <= 1""",
    identity=("window_start",),
    exact=("auction", "bidder", "price", "ts"),
    closed="epoch_us(window_start) + 10000000 <= {mark}",
)

Q8 = Workload(
    name="q8",
    title="NEXMark q8: people who open an auction in the 10 s in which they register",
    streams=("person", "auction"),
    duckdb=f"""
        WITH seller AS (SELECT DISTINCT seller AS id, {_BUCKET} AS window_start FROM auction)
        SELECT id, name, {_BUCKET} AS window_start FROM person SEMI JOIN seller
            ON person.id = seller.id AND time_bucket(INTERVAL '10 seconds', person.ts) = seller.window_start""",
    penstock=f"""
        SELECT p.id AS id, p.name AS name, p.window_start AS window_start
        FROM TUMBLE(person, ts, {_TEN}) p SEMI JOIN TUMBLE(auction, ts, {_TEN}) a
            ON p.id = a.seller AND p.window_start = a.window_start""",
    spark="""
        SELECT p.id AS id, p.name AS name, p.window.start AS window_start
        FROM (SELECT id, name, window(ts, '10 seconds') AS window FROM person) p
        LEFT SEMI JOIN (SELECT seller, window(ts, '10 seconds') AS window FROM auction) a
            ON p.id = a.seller AND p.window = a.window""",
    flink=f"""
        SELECT p.id AS id, p.name AS name, p.window_start AS window_start
        FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), {_TEN})) p
        JOIN (
            SELECT seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), {_TEN}))
            GROUP BY seller, window_start, window_end
        ) a ON p.id = a.seller AND p.window_start = a.window_start AND p.window_end = a.window_end""",
    identity=("id", "name", "window_start"),
)

ALL = (Q0, Q1, Q2, Q3, Q4, Q5, Q7, Q8)
