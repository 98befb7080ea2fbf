"""What goes wrong is said in three parts, with an exit code, and never with a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
import xxhash
from cli_case import COUNT, calls, last_json, penstock, run, to_files


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def said(script: str, *flags: str) -> str:
    """What running the script says; it must fail as an error of Penstock does."""
    Path("busy.sql").write_text(script)
    result = run("busy.sql", *flags)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "Traceback" not in result.output
    return result.stderr


def source(options: str) -> str:
    return f"CREATE SOURCE s (WATERMARK FOR ts AS ts) WITH ({options}); SELECT ts FROM s"


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ("connector = 'filez', path = 'x'", "unknown connector `filez` of a source", "did you mean `files`?"),
        ("connector = 'calls', keyz = 3", "a calls source has no option `keyz`", "did you mean `keys`?"),
        ("connector = 'calls', keys = 'many'", "`keys` cannot be `many`", "write digits only"),
        ("connector = 'calls', realtime = 'perhaps'", "`realtime` cannot be `perhaps`", "write true or false"),
        ("connector = 'calls', disorder = 2", "`disorder` cannot be `2`", '"2s"'),
        ("connector = 'calls', start = 'noon'", "`start` cannot be `noon`", "2024-01-31 12:00:00"),
        ("connector = 'calls', rate = 0", "`rate` must be above 0", "rows per second"),
        ("connector = 'files'", "a files source needs a path", "data/*.csv"),
        ("connector = 'files', path = 'none/*.csv'", "none/*.csv", "hint:"),
    ],
)
def test_options_of_sources(options: str, what: str, hint: str) -> None:
    text = said(source(options))
    assert what in text
    assert hint in text
    assert "busy.sql, line 1" in text


@pytest.mark.parametrize(
    ("options", "what", "hint"),
    [
        ("connector = 'memory'", "unknown connector `memory` of a sink", "known: `files`, `terminal`"),
        ("connector = 'files', pat = 'x'", "a files sink has no option `pat`", "did you mean `path`?"),
        ("connector = 'terminal', rows = 'x'", "`rows` cannot be `x`", "digits"),
    ],
)
def test_options_of_sinks(options: str, what: str, hint: str) -> None:
    text = said(calls() + f"CREATE SINK k WITH ({options}) AS SELECT ts FROM calls")
    assert what in text
    assert hint in text


@pytest.mark.parametrize(
    ("flags", "what", "hint"),
    [
        (["--set", "sitez=3"], "a run has no option `sitez`", "did you mean `sites`?"),
        (["--set", "sites"], "`--set sites` is not a setting", "key=value"),
        (["--set", "item_rows=x"], "`item_rows` cannot be `x`", "digits"),
        (["--sites", "0"], "the setting `sites` cannot be 0", "from 1 to 10000"),
        (["--sites", "1000000000"], "the setting `sites` cannot be 1000000000", "from 1 to 10000"),
        (["--set", "hash_bits=65"], "the setting `hash_bits` cannot be 65", "from 0 to 64"),
        (["--set", "groups_per_site=1000000"], "the setting `groups_per_site` cannot be", "from 1 to 4096"),
        (["--until", "-5s"], "`-5s`", "100 epochs"),
        (["--until", "soon"], "`until` cannot be `soon`", "100 epochs"),
        (["--set", "on_bad_row=ignore"], "`on_bad_row`", "divert"),
    ],
)
def test_flags(flags: list[str], what: str, hint: str) -> None:
    text = said(calls() + to_files(), *flags)
    assert what in text
    assert hint in text


def test_an_epoch_without_a_unit() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    result = penstock("run", "busy.sql", "--epoch", "2")
    assert (result.exit_code, "`epoch` cannot be `2`" in result.stderr) == (1, True)


def test_a_script_with_nothing_to_run() -> None:
    assert "busy.sql has nothing to run" in said(calls())


def test_a_mistake_in_the_query_points_to_its_place() -> None:
    text = said(calls() + "SELECT distric FROM calls")
    assert "line 3, column 8" in text
    assert "did you mean `district`?" in text


@pytest.mark.parametrize(
    ("target", "what", "hint"),
    [
        ("none.sql", "cannot read the script none.sql", "name a script"),
        ("none", "`none` is neither a script nor a stream", "name a script"),
        ("nowhere:x", "there is no module `nowhere`", "nowhere.py"),
        ("broken:x", "the module `broken` fails while it is imported", "fix it"),
        ("missing:x", "the module `missing` fails while it is imported", "fix it"),
        ("fine:streem", "`streem` is not a stream of module `fine`", "did you mean `stream`?"),
        ("fine:number", "it is a int", "stream"),
        ("wrong:x", "unknown function `nosuch`", "wrong.py, line 2: x = ps.call"),
    ],
)
def test_targets(target: str, what: str, hint: str) -> None:
    Path("broken.py").write_text("1 / 0\n")
    Path("missing.py").write_text("import no_such_library\n")
    Path("fine.py").write_text("import penstock as ps\nstream = ps.read.calls(rows=1)\nnumber = 3\n")
    Path("wrong.py").write_text("import penstock as ps\nx = ps.call('nosuch', 1)\n")
    for command in ("run", "explain"):
        result = penstock(command, target)
        assert result.exit_code == 1
        assert what in result.stderr
        assert hint in result.stderr
        assert "Traceback" not in result.output


def test_a_near_script_is_suggested() -> None:
    Path("busy.sql").write_text("")
    assert "did you mean `busy.sql`?" in run("buzy.sql").stderr


def test_with_json_an_error_is_also_a_line() -> None:
    Path("busy.sql").write_text(calls())
    facts = last_json(run("busy.sql", "--json"))
    assert facts["state"] == "failed"
    assert facts["error"]["what"] == "busy.sql has nothing to run"


def test_a_checkpoint_of_another_query_is_refused() -> None:
    Path("busy.sql").write_text(calls() + to_files())
    run("busy.sql")
    assert "belongs to another query" in said(calls(rows=6000) + to_files())


def test_a_checkpoint_of_a_newer_format_is_refused_and_kept_even_with_fresh() -> None:
    script = calls() + to_files()
    Path("busy.sql").write_text(script)
    run("busy.sql", "--until", "2 epochs")
    newest = max(Path(".penstock").glob("*/manifests/*.json"))
    body = newest.read_bytes().partition(b'"body":')[2][:-1].replace(b'{"format":6,', b'{"format":7,', 1)
    newest.write_bytes(b'{"checksum":"%s","body":%s}' % (xxhash.xxh3_64_hexdigest(body).encode(), body))
    kept = {path: path.read_bytes() for path in Path().rglob("*.*") if path.is_file()}
    for flags in ((), ("--fresh",)):
        text = said(script, *flags)
        assert "the checkpoint has format 7: a newer version of Penstock has written it" in text
        assert "reads format 5 and format 6" in text
        assert "hint:   run the query with the newer version" in text
        assert {path: path.read_bytes() for path in kept} == kept


def test_when_one_sink_fails_the_others_stop() -> None:
    Path("bad.csv").write_text("ts,n\n1,2\n2,oops\n")
    bad = "CREATE SOURCE b (ts BIGINT, n BIGINT, WATERMARK FOR ts AS ts) WITH (connector='files', path='bad.csv');"
    endless = calls(more=", realtime = true").replace("rows = 5000, ", "")
    text = said(bad + endless + to_files("good") + to_files("failing", "out-b", "SELECT ts, n FROM b"))
    assert "bad.csv" in text


def test_usage_errors_are_those_of_the_command_line() -> None:
    assert penstock("scale").exit_code == 2
    assert penstock("run", "x.sql", "--nonsense").exit_code == 2
    assert penstock("bench", "--repeat", "0").exit_code == 2


def test_an_unknown_workload_or_system_is_suggested() -> None:
    assert "did you mean `tumble`?" in penstock("bench", "tumbl").stderr
    assert "did you mean `duckdb`?" in penstock("bench", "tumble", "--system", "duckdbb").stderr


@pytest.mark.parametrize("command", ["run", "explain"])
def test_windows_with_gaps_are_warned_of_on_the_screen(command: str) -> None:
    window = "HOP(calls, ts, INTERVAL '2' SECOND, INTERVAL '1' SECOND{})"
    query = "SELECT window_start, count(*) AS n FROM {} GROUP BY 1"
    flags = ("--master", "inline", "--checkpoint", "ck") if command == "run" else ()
    Path("busy.sql").write_text(calls(100) + query.format(window.format("")))
    result = penstock(command, "busy.sql", *flags)
    assert result.exit_code == 0
    assert "warning: windows of INTERVAL '1' SECOND" in result.stderr
    assert "50.0% of the time" in result.stderr
    assert "busy.sql, line 3" in result.stderr
    Path("busy.sql").write_text(calls(100) + query.format(window.format(", gaps => true")))
    assert "warning" not in penstock(command, "busy.sql", *flags).stderr


@pytest.mark.parametrize("place", ["file", "file/inside"])
def test_a_checkpoint_is_no_file(place: str) -> None:
    Path("file").write_text("mine")
    text = said(calls(10) + COUNT, "--checkpoint", place)
    assert f"{place}` cannot be a checkpoint" in text
    assert "file is a file" in text
    assert "name a folder" in text
    assert Path("file").read_text() == "mine"


def test_an_unknown_function_gets_the_nearest_names() -> None:
    text = said(calls(10) + "SELECT ts, zzzz(caller) AS x FROM calls")
    assert "unknown function `zzzz`" in text
    (hint,) = [line for line in text.splitlines() if "hint:" in line]
    assert hint.count("`") == 6
