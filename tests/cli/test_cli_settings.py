"""Settings as users of the command line give them: penstock.toml, PENSTOCK_NAME, SET in the script, options."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_case import calls, last_json, penstock, to_files

ROWS = 4_000


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_MASTER", "inline")
    (tmp_path / "busy.sql").write_text(calls(rows=ROWS) + to_files())
    return tmp_path


def epochs(*options: str) -> int:
    """Run the script from the start and return its number of epochs: it takes in a fixed number of rows in each."""
    result = penstock("run", "busy.sql", "--fresh", "--yes", "--json", *options)
    assert result.exit_code == 0, result.stderr
    return int(last_json(result)["epochs"])


def test_each_place_of_a_setting_overrides_those_before_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert epochs() == 1
    (folder / "penstock.toml").write_text("rows_per_epoch = 2000\n")
    assert epochs() == 2
    monkeypatch.setenv("PENSTOCK_ROWS_PER_EPOCH", "1000")
    assert epochs() == 4
    (folder / "busy.sql").write_text("SET rows_per_epoch = 800;\n" + (folder / "busy.sql").read_text())
    assert epochs() == 5
    assert epochs("--rows-per-epoch", "500") == 8
    assert epochs("--set", "rows_per_epoch=400") == 10


@pytest.mark.parametrize("options", [("--flush", "soon"), ("--set", "flush=soon")])
def test_a_wrong_value_of_an_option_is_refused(options: tuple[str, str]) -> None:
    result = penstock("run", "busy.sql", *options)
    assert result.exit_code == 1
    assert "error: the setting `flush` cannot be 'soon'" in result.stderr
    assert "hint:   give it 'eager', 'slow' or 'lazy'" in result.stderr


def test_a_wrong_line_of_the_file_is_refused_before_anything_is_made(folder: Path) -> None:
    (folder / "penstock.toml").write_text("site = 3\n")
    result = penstock("run", "busy.sql")
    assert result.exit_code == 1
    assert "error: unknown setting `site`" in result.stderr
    assert "hint:   did you mean `sites`?" in result.stderr
    assert not (folder / ".penstock").exists()
