"""Options that type checkers accept, and the types that users get back. Checked by test_typing.py, never run."""

from typing import assert_type

import pyarrow as pa

import penstock as ps

files = ps.read.files("calls/*.csv", time="ts", format="csv", substreams="files", missing="null", idle="10s")
calls = ps.read.calls(rows=10, rate=5.0, disorder="2s", start="2024-01-31")
joinable = ps.read.joinable(1, ratios=[4, 2, 1], skew=10, alternate=["5m", "10m"], payload="1KB", seed=3)
batches = ps.read.batches([[{"ts": 1}]], time="ts", splits_per_batch=2)
assert_type(files, ps.Stream)
ready = calls.to.files("out", compression="zstd", format="arrow", in_order_by="caller")
run = ready.start("ck", sites=2, epoch="2s", flush="lazy", on_bad_row="divert", until="3 epochs", progress=False)
assert_type(run, ps.Run)
assert_type(run.result(), pa.Table)
assert_type(ready.explain(order="in", sites=3), str)
