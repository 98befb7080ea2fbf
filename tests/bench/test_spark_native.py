from __future__ import annotations

from penstock_bench.systems.spark import rows_read


def test_a_stream_that_a_query_names_twice_counts_once() -> None:
    calls = {"description": "FileStreamSource[file:/data/calls]", "numInputRows": 400}
    other = {"description": "FileStreamSource[file:/data/a]", "numInputRows": 30}
    assert rows_read({"numInputRows": 830, "sources": [calls, other, calls]}) == 430
    assert rows_read({"numInputRows": 0, "sources": []}) == 0
