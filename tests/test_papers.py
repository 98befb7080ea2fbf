"""The queries Q1 to Q9 of the paper on out-of-order processing, over packets that arrive out of order, give the batch
answer however they are run.

They are written as they are printed there, with three exceptions: what is written `/` in Q6 cuts off the rest of a
division, as `//` does here, and its `ts` counts seconds; flags are strings, in quotes; and the `n` of Q7 is a span.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

import pyarrow as pa
import pytest

from penstock.api.streams import Stream
from penstock.connectors.memory import MemoryConnector
from penstock.plan.logical import Connector, Node
from penstock.sql import parse_script
from penstock.testing import assert_same_rows, batch_answer, cut, disordered, random_way
from penstock.testing.source_rows import tables_of
from penstock_bench.rows.packets import SECOND, START, Link, Traffic

SLACK = 5  # seconds
TRAFFIC = Traffic(seconds=420, conversations=5, lifetime=90 * SECOND, round_trip=SECOND, tick=SECOND)
ASKING = ("Main1", "S0", "M", "M1", "A", "B")
ANSWERING = ("Main2", "S1", "M2", "C", "D")
LINKS = {
    "Control": Link("Control", 0.1),
    **{name: Link(name, 0.6) for name in ASKING},
    **{name: Link(name, 0.6, answers=True) for name in ANSWERING},
}

QUERIES = {
    "Q1": """SELECT count (*)
             FROM Control union Main1 union Main2
             [RANGE 1 minute, SLIDE 1 minute, WA ts]""",
    "Q2": """SELECT *
             FROM Main1 [WA ts, RANGE 3 min],
                  Main2 [WA ts, RANGE 2 min]
             WHERE Main1.srcIP = Main2.destIP;""",
    "Q3": """SELECT S0.ts, S1.ts, count(*)
             FROM S0 [WA ts, RANGE 2 min],
                  S1 [WA ts, RANGE 2 min]
             WHERE S0.destIP = S1.srcIP AND S0.destPort = S1.srcPort
               AND S0.flag = 'SYN' AND S1.flag = 'SYN_ACK'
               AND S0.ts < S1.ts
             GROUP BY S0.ts, S1.ts;""",
    "Q4": """SELECT srcIP, destIP, count(*)
             FROM M [WA ts, RANGE 1 min, SLIDE 1 min]
             GROUP BY srcIP, destIP""",
    "Q5": """SELECT srcIP, destIP, count(*)
             FROM M1 UNION M2
             [RANGE 1 min, SLIDE 1 min, WA ts]
             GROUP BY srcIP, destIP""",
    "Q6": """SELECT M1.srcIP, M1.destIP, M1.ts
             FROM A UNION B as M1, C UNION D as M2
             WHERE M1.ts//10 = M2.ts//10 and M1.srcIP = M2.destIP and
             M1.destIP = M2.srcIP and M1.srcPort = M2.destPort and
             M1.destPort = M2.srcPort""",
    "Q7": """SELECT count(*)
             [RANGE 1 min, SLIDE 1 min, WA M1.ts]
             FROM M1, M2
             WHERE M1.ts >= M2.ts - INTERVAL '20' SECOND and M1.ts <= M2.ts + INTERVAL '20' SECOND and
             M1.srcIP = M2.destIP and M1.destIP = M2.srcIP and
             M1.srcPort = M2.destPort and M1.destPort = M2.srcPort""",
    "Q8": """SELECT M1.srcIP, M1.destIP, M1.ts
             FROM M1, M2 Union C as M3
             WHERE M1.ts = M3.ts and M1.srcIP = M3.destIP and
             M1.destIP = M3.srcIP and M1.srcPort = M3.destPort and
             M1.destPort = M3.srcPort""",
    "Q9": """SELECT count(*) [RANGE 5 min, SLIDE 1 min, WA ts]
             FROM M1 UNION M2 UNION C""",
}


@dataclass(frozen=True)
class PacketConnectors:
    """Links by name, their packets cut into batches in an order of arrival in which none is late."""

    random: Random
    in_seconds: bool

    def source(self, kind: str, options: dict[str, str], schema: pa.Schema | None) -> MemoryConnector:
        packets = TRAFFIC.packets(LINKS[kind])
        if self.in_seconds:
            packets = packets.set_column(packets.num_columns - 1, "ts", _seconds(packets))
        arrival = disordered(self.random, packets, SLACK if self.in_seconds else SLACK * SECOND)
        return MemoryConnector(tuple(cut(self.random, arrival)), one_batch_per_offer=True)

    def sink(self, kind: str, options: dict[str, str]) -> Connector:
        raise NotImplementedError


def _seconds(packets: pa.Table) -> pa.Array:
    return pa.array((packets.column("ts").cast(pa.int64()).to_numpy() - START) // SECOND)


def planned(random: Random, query: str, in_seconds: bool = False) -> Node:
    time = f"BIGINT, WATERMARK FOR ts AS ts - {SLACK}" if in_seconds else (
        f"TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '{SLACK}' SECOND"
    )  # fmt: skip
    packet = f"srcIP BIGINT, srcPort INT, destIP BIGINT, destPort INT, len INT, flag VARCHAR, ts {time}"
    declared = "".join(f"CREATE SOURCE {name} ({packet}) WITH (connector = '{name}');\n" for name in LINKS)
    return parse_script(declared + query, connectors=PacketConnectors(random, in_seconds)).queries[0][1]


@pytest.mark.parametrize("order", ["any", "in"])
@pytest.mark.parametrize("name", QUERIES)
def test_a_query_of_the_paper_gives_the_batch_answer(name: str, order: str, random: Random) -> None:
    node = planned(random, QUERIES[name], in_seconds=name == "Q6")
    tables, way = tables_of(node), random_way(random)
    way = replace(way, item_rows=max(20, way.item_rows))  # there are thousands of rows
    rows, answer = sum(table.num_rows for table in tables.values()), batch_answer(node, tables)
    run = Stream(node).to.memory().start(master="inline", epoch="1ms", order=order, **way.settings()).wait()
    assert (run.progress.state, run.progress.rows_in, run.progress.late_rows) == ("finished", rows, 0)
    assert answer.num_rows > 5
    assert_same_rows(run.result(), answer, f"{name}, order={order}, {way}")
