"""What is known only at the end of a stream is refused over sources that do not end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.api.script import read_script
from penstock.api.streams import Stream
from penstock.errors import QueryError

USES: dict[str, Callable[[Stream], Stream]] = {
    "a top-n": lambda s: s.top(3, by=ps.desc("duration"), per=None),
    "keep_first": lambda s: s.keep_first("caller", per=None),
    "keep_last": lambda s: s.keep_last("caller", per=None),
}
ENDLESS, ENDING = ps.read.calls(), ps.read.calls(rows=10)


@pytest.mark.parametrize("use", USES)
def test_without_a_time_a_source_without_end_is_refused(use: str) -> None:
    USES[use](ENDING)
    for stream in (ENDLESS, ENDLESS.where("duration > 1"), ENDING.union(ENDLESS)):
        with pytest.raises(QueryError, match=f"{use} without a time needs a stream that ends") as caught:
            USES[use](stream)
        assert "source `calls` is unbounded" in caught.value.detail
        assert "windowed" in caught.value.hint


def test_with_a_time_a_source_need_not_end() -> None:
    ENDLESS.windowed(ps.tumbling("1m")).keep_first("caller")
    ENDLESS.top(3, by="duration")


def test_files_that_are_followed_have_no_end(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1], "k": [1]}), tmp_path / "a.parquet")
    ps.read.files(str(tmp_path), time="ts").keep_last("k", per=None)
    with pytest.raises(QueryError, match="needs a stream that ends"):
        ps.read.files(str(tmp_path), time="ts", follow=True).keep_last("k", per=None)


def script(options: str, query: str) -> str:
    return f"CREATE SOURCE calls (WATERMARK FOR ts AS ts) WITH (connector = 'calls'{options});\n{query}"


NUMBER = "ROW_NUMBER() OVER (PARTITION BY caller ORDER BY duration)"
QUERIES = [
    f"SELECT * FROM calls QUALIFY {NUMBER} <= 3",
    f"SELECT * FROM (SELECT *, {NUMBER} AS rn FROM calls) WHERE rn = 1",
]


@pytest.mark.parametrize("query", QUERIES)
def test_in_sql(query: str) -> None:
    read_script(script(", rows = 10", query))
    with pytest.raises(QueryError, match="without a time needs a stream that ends") as caught:
        read_script(script("", query))
    assert "script, line 2" in caught.value.detail
    assert "PARTITION BY" in caught.value.hint
    read_script(script("", query.replace("PARTITION BY", "PARTITION BY ts,")))
