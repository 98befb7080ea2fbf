from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from penstock_bench.rows.packets import PACKETS_SCHEMA, SECOND, START, Link, Traffic, arriving

TRAFFIC = Traffic(seconds=30, conversations=20, lifetime=10 * SECOND, seed=7)
ASKING, ANSWERING = Link("asking", 100), Link("answering", 100, answers=True)


def times(packets: pa.Table) -> np.ndarray:
    return packets.column("ts").cast(pa.int64()).to_numpy() - START


def matches(one: pa.Table, other: pa.Table, condition: str = "TRUE") -> int:
    """Pairs of packets of one conversation, in opposite directions."""
    ((found,),) = duckdb.sql(
        f"""SELECT count(*) FROM one JOIN other ON one.srcIP = other.destIP AND one.destIP = other.srcIP
            AND one.srcPort = other.destPort AND one.destPort = other.srcPort AND {condition}"""
    ).fetchall()
    return int(found)


def test_a_link_has_its_rate_and_its_time_in_order() -> None:
    packets = TRAFFIC.packets(ASKING)
    assert packets.schema == PACKETS_SCHEMA
    assert packets.num_rows == 3000
    assert (np.diff(times(packets)) >= 0).all()
    assert (times(packets) // SECOND == np.arange(3000) // 100).all()  # a hundred in each second


def test_the_same_seed_gives_the_same_packets_and_another_seed_others() -> None:
    again = Traffic(seconds=30, conversations=20, lifetime=10 * SECOND, seed=7)
    other = Traffic(seconds=30, conversations=20, lifetime=10 * SECOND, seed=8)
    assert again.packets(ASKING) == TRAFFIC.packets(ASKING)
    assert other.packets(ASKING) != TRAFFIC.packets(ASKING)
    assert TRAFFIC.packets(Link("another", 100)) != TRAFFIC.packets(ASKING)


def test_links_of_opposite_directions_carry_the_same_conversations() -> None:
    one, other = TRAFFIC.packets(ASKING), TRAFFIC.packets(ANSWERING)
    assert matches(one, other) > 10 * one.num_rows
    assert matches(one, TRAFFIC.packets(Link("also asking", 100))) == 0


def test_a_conversation_ends() -> None:
    one, other = TRAFFIC.packets(ASKING), TRAFFIC.packets(ANSWERING)
    far = "abs(epoch_us(one.ts) - epoch_us(other.ts)) >= 10050000"  # its lifetime, and the way of the answer
    assert matches(one, other, far) == 0


def test_the_first_packet_of_a_conversation_opens_it() -> None:
    one, other = TRAFFIC.packets(ASKING), TRAFFIC.packets(ANSWERING)
    ends = ["srcIP", "srcPort", "destIP", "destPort"]
    for packets, flag in ((one, "SYN"), (other, "SYN_ACK")):
        opening = packets.filter(pc.equal(packets.column("flag"), flag))
        assert opening.num_rows == packets.group_by(ends).aggregate([]).num_rows
    assert matches(one, other, "one.flag = 'SYN' AND other.flag = 'SYN_ACK'") > 50


def test_times_are_multiples_of_the_tick() -> None:
    coarse = Traffic(seconds=30, conversations=20, tick=SECOND // 2).packets(ASKING)
    assert set(times(coarse) % (SECOND // 2)) == {0}


@pytest.mark.parametrize("delay", [0, 3 * SECOND, 3 * SECOND + 1])
def test_packets_arrive_with_the_delay_of_their_link(delay: int) -> None:
    packets = TRAFFIC.packets(ASKING)
    batches = arriving(packets, delay, 2 * SECOND)
    assert pa.concat_tables(batches) == packets
    for number, batch in enumerate(batches):
        assert ((times(batch) + delay) // (2 * SECOND) == number).all()
    assert batches[0].num_rows == (200 if delay == 0 else 0)


def test_a_link_without_packets_still_has_an_epoch() -> None:
    assert [batch.num_rows for batch in arriving(PACKETS_SCHEMA.empty_table(), 0, SECOND)] == [0]
