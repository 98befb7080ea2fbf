"""A URL is never taken for a folder of this machine, wherever a path can be written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import penstock as ps
from penstock.cli.main import app
from penstock.errors import PenstockError
from penstock.paths import local_path
from penstock.settings import Settings

URLS = ["s3://bucket/x", "s3a://b/x", "gs://bucket/x", "hdfs://host:8020/x", "abfss://c@a.dfs.core.windows.net/x",
        "http://host/x", "S3://bucket", "memory://x", "file://host/x"]  # fmt: skip
SCRIPT = """CREATE SOURCE s (ts BIGINT, WATERMARK FOR ts AS ts) WITH (connector = 'files', path = '{source}');
CREATE SINK out WITH (connector = 'files', path = '{sink}') AS SELECT ts FROM s;
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"ts": [1, 2, 3]}), tmp_path / "in" / "a.parquet")


def _rows() -> ps.Stream:
    return ps.read.files("in", time="ts")


PYTHON: dict[str, Callable[[str], object]] = {
    "a files sink": lambda url: _rows().to.files(url),
    "a files source": lambda url: ps.read.files(url, time="ts", schema={"ts": "BIGINT"}),
    "a checkpoint": lambda url: _rows().to.files("out").start(url, master="inline"),
    "the late rows": lambda url: _rows().to.files("out").start("ck", master="inline", late=url),
    "the bad rows": lambda url: _rows().to.files("out").start("ck", master="inline", bad=url),
    "a cache": lambda url: _rows().to.files("out").start("ck", master="inline", cache=url),
}


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("what", PYTHON)
def test_python_refuses_a_url_as_a_path(what: str, url: str) -> None:
    for written in (url, url if url.startswith("file") else Path(url)):
        with pytest.raises(PenstockError, match=f"{what} cannot be on {url.partition('://')[0].lower()}://") as caught:
            PYTHON[what](str(written))
        assert "use a folder" in caught.value.hint
    assert [path.name for path in Path().iterdir()] == ["in"]


def _penstock(*arguments: str) -> str:
    """What is on stderr of a command that must fail without a trace."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("url", ["s3://bucket/x", "hdfs://host/x"])
@pytest.mark.parametrize("what", ["sink", "source"])
def test_sql_refuses_a_url_as_a_path(what: str, url: str) -> None:
    Path("q.sql").write_text(SCRIPT.format(**({"source": "in", "sink": "out"} | {what: url})))
    said = _penstock("run", "q.sql", "--master", "inline")
    assert f"a files {what} cannot be on {url.partition('://')[0]}://" in said
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["run", "q.sql", "--checkpoint", "s3://b/ck"], "a checkpoint"),
        (["run", "q.sql", "--set", "late=s3://b/late"], "the late rows"),
        (["run", "q.sql", "--set", "bad=s3://b/bad"], "the bad rows"),
        (["run", "q.sql", "--set", "cache=s3://b/cache"], "a cache"),
        (["run", "s3://b/q.sql"], "a script"),
        (["explain", "s3://b/q.sql"], "a script"),
        (["top", "s3://b/ck", "--once"], "a checkpoint"),
        (["scale", "s3://b/ck", "--sites", "3"], "a checkpoint"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_the_command_line_refuses_a_url_as_a_path(arguments: list[str], what: str) -> None:
    Path("q.sql").write_text(SCRIPT.format(source="in", sink="out"))
    master = ["--master", "inline"] if arguments[0] == "run" else []
    assert f"{what} cannot be on s3://" in _penstock(*arguments, *master)
    assert sorted(path.name for path in Path().iterdir()) == ["in", "q.sql"]


def test_a_file_url_is_a_path_everywhere(tmp_path: Path) -> None:
    base = f"file://{tmp_path}"
    run = ps.read.files(f"{base}/in/*.parquet", time="ts").to.files(f"{base}/o%20ut")
    run.start(f"{base}/ck", master="inline", late=f"{base}/late", bad=f"file://localhost{tmp_path}/bad").wait()
    assert pq.read_table(tmp_path / "o ut").num_rows == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "ck", "in", "late", "o ut"]
    again = ps.read.files(str(tmp_path / "in" / "*.parquet"), time="ts").to.files(str(tmp_path / "o ut"))
    again.start(str(tmp_path / "ck"), master="inline").wait()  # the same query


@pytest.mark.parametrize(
    "path", ["x", "/x/y", "~/x", "./s3:/x", "x:y", "a:b/c", "C:/x", "data/s3://x", "", "2024-01:/x"]
)
def test_a_path_stays_as_it_is(path: str) -> None:
    assert local_path(path, "it") == path
    assert Settings(late=path).late == path
