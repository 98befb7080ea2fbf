"""Generated streams of network packets: links that carry the two directions of the same conversations.

A packet is a function of (seed, link, row) alone. At any time the same number of conversations is under way, each in a
slot of its own; when one ends, the next begins in its slot. A packet belongs to the conversation of a random slot, so
links of opposite directions carry packets with source and destination exchanged, which joins find.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, schema_of
from penstock.connectors.generator.reader import uniforms
from penstock.type_names import TIMESTAMP
from penstock.types import time_array, time_values

SECOND = 1_000_000
START = 472_222 * 3_600 * SECOND  # a whole hour
PACKETS_SCHEMA = schema_of(
    {
        "srcIP": pa.int64(),
        "srcPort": pa.int32(),
        "destIP": pa.int64(),
        "destPort": pa.int32(),
        "len": pa.int32(),
        "flag": pa.string(),
        "ts": TIMESTAMP,
    }
)
_CLIENTS, _SERVERS = 4096, 16  # addresses
_NETWORK = 10 << 24  # 10.0.0.0
# Places of the random columns; they are part of what a seed means, so they never change.
_JITTER, _SLOT, _LENGTH, _CLIENT, _SERVER, _PORT = range(6)

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Link:
    """A link of `rate` packets per second. `answers`: it carries what servers answer to clients. All its packets arrive
    `delay` microseconds of event time later than those of a link without delay."""

    name: str
    rate: float
    answers: bool = False
    delay: int = 0


@dataclass(frozen=True)
class Traffic:
    """`conversations` are under way at any time, each for `lifetime`; an answer is `round_trip` behind. Times are whole
    multiples of `tick`. Spans are in microseconds."""

    seconds: int
    conversations: int
    lifetime: int = 60 * SECOND
    round_trip: int = SECOND // 20
    tick: int = 1
    seed: int = 0

    def packets(self, link: Link) -> pa.Table:
        """All packets of a link, in order of time."""
        seed = self.seed + zlib.crc32(link.name.encode())
        rows = np.arange(int(self.seconds * link.rate), dtype=np.int64)
        since = ((rows + uniforms(seed, _JITTER, rows)) / link.rate * SECOND).astype(np.int64)
        conversation = self._conversations(seed, rows, since - (self.round_trip if link.answers else 0))
        client, server = self._ends(conversation)
        source, target = (server, client) if link.answers else (client, server)
        length = 40 + (uniforms(seed, _LENGTH, rows) * 1461).astype(np.int32)
        times = time_array(START + since // self.tick * self.tick, TIMESTAMP)
        return pa.table([*source, *target, length, _flags(conversation, link), times], schema=PACKETS_SCHEMA)

    def _conversations(self, seed: int, rows: Integers, since: Integers) -> Integers:
        slot = (uniforms(seed, _SLOT, rows) * self.conversations).astype(np.int64)
        begun = (since + slot * self.lifetime // self.conversations) // self.lifetime  # not all slots change at once
        return begun * self.conversations + slot

    def _ends(self, conversation: Integers) -> tuple[list[AnyArray], list[AnyArray]]:
        """(address, port) of the client and of the server."""
        client = _NETWORK + (uniforms(self.seed, _CLIENT, conversation) * _CLIENTS).astype(np.int64)
        server = _NETWORK + _CLIENTS + (uniforms(self.seed, _SERVER, conversation) * _SERVERS).astype(np.int64)
        port = 1024 + (uniforms(self.seed, _PORT, conversation) * 64_000).astype(np.int32)
        return [pa.array(client), pa.array(port)], [pa.array(server), pa.array(np.full_like(port, 443))]


def _flags(conversation: Integers, link: Link) -> AnyArray:
    """The first packet of a conversation on a link opens it."""
    first = np.zeros(len(conversation), dtype=bool)
    first[np.unique(conversation, return_index=True)[1]] = True
    return pa.array(np.where(first, "SYN_ACK" if link.answers else "SYN", "ACK"))


def arriving(packets: pa.Table, delay: int, epoch: int) -> list[pa.Table]:
    """The packets of a link by the epoch in which they arrive, at least one; `epoch` is its length in microseconds."""
    arrival = time_values(packets.column("ts")) - START + delay
    epochs = int(arrival[-1]) // epoch + 1 if len(arrival) else 1
    borders = np.searchsorted(arrival, np.arange(epochs + 1) * epoch).tolist()
    return [packets.slice(low, high - low) for low, high in pairwise(borders)]
