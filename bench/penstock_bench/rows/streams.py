"""The input streams by name. The rows of a file depend on the stream, the total and the number of the file only, so
every machine generates the same rows."""

from __future__ import annotations

from penstock.errors import ConfigError, did_you_mean
from penstock_bench.rows.calls import CALLS
from penstock_bench.rows.narrow import NARROW_SCHEMA, narrow_rows
from penstock_bench.rows.nexmark import NEXMARK_STREAMS
from penstock_bench.rows.skewed import SKEWED_STREAMS
from penstock_bench.rows.stream import BenchStream
from penstock_bench.rows.wide import WIDE_SCHEMA, wide_rows

__all__ = ["STREAMS", "BenchStream", "stream_named"]

STREAMS: dict[str, BenchStream] = {
    stream.name: stream
    for stream in (
        BenchStream("a", NARROW_SCHEMA, "ts", 1, narrow_rows),
        BenchStream("b", NARROW_SCHEMA, "ts", 2, narrow_rows),
        BenchStream("c", NARROW_SCHEMA, "ts", 3, narrow_rows),
        BenchStream("wide", WIDE_SCHEMA, "ts", 4, wide_rows),
        CALLS,
        *NEXMARK_STREAMS,
        *SKEWED_STREAMS,
    )
}


def stream_named(name: str) -> BenchStream:
    """The stream of that name, or an error that suggests one."""
    if name not in STREAMS:
        raise ConfigError(f"unknown benchmark stream `{name}`", hint=did_you_mean(name, STREAMS))
    return STREAMS[name]
