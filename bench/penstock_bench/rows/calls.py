"""Call records as a stream of the benchmark, with the fields of StreamCloud's evaluation: calling and called number,
start, duration, district, place, and the time at which the record was sent, which is that of the end of the call.

A caller has CALLS_EACH calls on average, whatever the size, so that questions about callers mean the same at any size.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.arrow import AnyArray, AnyChunked, schema_of
from penstock.connectors.generator.calls import CallsConnector
from penstock_bench.rows.stream import FILE_SECONDS, FILES, START, BenchStream

CALLS_EACH = 40
_SPAN_MS = FILES * FILE_SECONDS * 1000
_START_MS = START // 1000
_DRAWN = ("caller", "callee", "district", "duration", "x", "y")

CALL_RECORDS_SCHEMA = schema_of(
    {
        "caller": pa.int64(),
        "callee": pa.int64(),
        "started_ms": pa.int64(),
        "duration": pa.float64(),
        "district": pa.int32(),
        "x": pa.float64(),
        "y": pa.float64(),
        "ts": pa.timestamp("us"),
    }
)


def call_records(seed: int, total: int, file: int) -> pa.Table:
    """Calls that ended in the file's span; times are whole milliseconds, places kilometres, durations seconds."""
    rows = np.arange(-(-total * file // FILES), -(-total * (file + 1) // FILES), dtype=np.int64)
    calls = CallsConnector(rows=total, keys=max(1, total // CALLS_EACH), seed=seed)
    drawn = calls.generate(int(rows[0]), int(rows[-1]) + 1, _DRAWN) if len(rows) else calls.generate(0, 0, _DRAWN)
    ended = _START_MS + rows * _SPAN_MS // total
    columns: dict[str, AnyArray | AnyChunked] = {name: drawn[name] for name in _DRAWN}
    columns |= {"started_ms": pa.array(ended - _milliseconds(drawn["duration"])), "ts": pa.array(ended * 1000)}
    return pa.table([columns[field.name].cast(field.type) for field in CALL_RECORDS_SCHEMA], schema=CALL_RECORDS_SCHEMA)


CALLS = BenchStream("calls", CALL_RECORDS_SCHEMA, "ts", 14, call_records)


def _milliseconds(seconds: AnyChunked) -> npt.NDArray[np.int64]:
    return np.asarray(np.round(seconds.to_numpy() * 1000), np.int64)
