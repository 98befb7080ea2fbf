"""Settings: one name everywhere, and the order in which penstock.toml, the environment and the query override."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import pytest

import penstock as ps
from penstock.api.launch import settings_from
from penstock.api.run_options import SettingOptions
from penstock.declared import Setting, declared
from penstock.errors import ConfigError
from penstock.given import given_settings, layered
from penstock.settings import Settings

SETTINGS = declared(Settings)


@pytest.fixture(autouse=True)
def in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(f"PENSTOCK_{name.name.upper()}", raising=False)
    monkeypatch.chdir(tmp_path)


def refusal(**options: Any) -> tuple[str, str, str]:
    with pytest.raises(ConfigError) as raised:
        settings_from(options)
    return raised.value.what, raised.value.detail, raised.value.hint


def other(setting: Setting) -> tuple[object, object]:
    """Return a value other than the default, as a user writes it and as the field holds it."""
    texts = {"master": "local[3]", "grid": "2x3", "cache": "/cache", "policy": "static", "late": "l", "bad": "b"}
    if setting.name in texts:
        return texts[setting.name], texts[setting.name]
    if setting.kind is float:
        return "3s", 3.0
    if setting.kind is int:
        return (2, 2) if setting.default != 2 else (3, 3)
    last = setting.kind.__args__[-1]
    return last, last


def test_every_setting_has_a_line_of_documentation() -> None:
    assert [one.name for one in SETTINGS if len(one.doc) < 20 or "\n" in one.doc] == []


def test_the_keywords_of_start_are_the_settings() -> None:
    assert set(get_type_hints(SettingOptions)) == {one.name for one in SETTINGS}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda one: one.name)
def test_a_setting_has_one_name_in_the_file_the_environment_and_the_query(
    setting: Setting, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, held = other(setting)
    more = {"most_sites": 9} if setting.name == "least_sites" else {}
    assert getattr(settings_from({setting.name: written, **more}), setting.field) == held
    Path("penstock.toml").write_text(f"{setting.name} = {written!r}\n")
    assert getattr(settings_from(more), setting.field) == held
    Path("penstock.toml").unlink()
    monkeypatch.setenv(f"PENSTOCK_{setting.name.upper()}", str(written))
    assert getattr(settings_from(more), setting.field) == held


def test_the_query_overrides_the_environment_and_that_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("penstock.toml").write_text('sites = 3\nepoch = "3s"\nround = "3s"\n')
    assert settings_from({}).sites == 3
    monkeypatch.setenv("PENSTOCK_SITES", "4")
    monkeypatch.setenv("PENSTOCK_EPOCH", "4s")
    found = settings_from({"sites": 5})
    assert (found.sites, found.epoch_seconds, found.round_seconds) == (5, 4.0, 3.0)


def test_a_length_in_seconds_overrides_the_same_length_as_a_span() -> None:
    assert layered({"epoch": "3s"}, {"epoch_seconds": 1.0}) == {"epoch_seconds": 1.0}
    assert layered({"epoch_seconds": 1.0}, {"epoch": "3s"}) == {"epoch": "3s"}


def test_a_run_from_python_takes_the_settings_of_the_folder() -> None:
    Path("penstock.toml").write_text('master = "inline"\nlateness = "row"\nlate = "late-rows"\n')
    rows = ps.read.batches([[{"ts": 5, "v": 1}], [{"ts": 1, "v": 2}]], time="ts")
    sums = rows.window(ps.tumbling(10)).agg(s=ps.sum("v"))
    run = sums.to.memory().start(progress=False).wait()
    assert run.result().to_pylist() == [{"window_start": 0, "s": 1}]
    assert list(Path("late-rows").glob("*.parquet"))


def test_a_wrong_value_is_refused_with_the_values_that_there_are() -> None:
    assert refusal(sites=0) == ("the setting `sites` cannot be 0", "", "give it a whole number from 1 to 10000")
    assert refusal(sites=True)[0] == "the setting `sites` cannot be True"
    assert refusal(flush="x") == ("the setting `flush` cannot be 'x'", "", "give it 'eager', 'slow' or 'lazy'")
    assert refusal(late=7) == ("the setting `late` cannot be 7", "", "give it a text")
    assert refusal(epoch="2d") == (
        "the setting `epoch` cannot be 172800.0", "", 'give it a span from 1us to 24h, as in "2s"',
    )  # fmt: skip
    assert refusal(epoch=2)[0] == "the setting `epoch` has no unit"
    assert refusal(site=2) == ("unknown setting `site`", "", "did you mean `sites`?")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sites = 0", "the setting `sites` cannot be 0"),
        ("sites = '3'", "the setting `sites` cannot be '3'"),
        ("epoch = 2", "the setting `epoch` cannot be 2"),
        ("epoch = '2 parsecs'", "`2 parsecs` is not a span of time"),
        ("site = 3", "unknown setting `site`"),
        ("[nightly]\nsites = 3", "unknown setting `nightly`"),
    ],
)
def test_a_wrong_line_of_the_file_is_named_with_the_file(text: str, told: str) -> None:
    Path("penstock.toml").write_text(text)
    what, detail, hint = refusal()
    assert what == told
    assert str(Path("penstock.toml").absolute()) in detail
    assert hint


def test_a_file_that_is_not_toml_is_refused() -> None:
    Path("penstock.toml").write_text("sites: 3")
    what, detail, hint = refusal()
    assert (what.startswith("cannot read "), "line 1" in detail, "sites = 3" in hint) == (True, True, True)


@pytest.mark.parametrize(
    ("variable", "text", "told"),
    [
        ("PENSTOCK_SITES", "0", "the setting `sites` cannot be 0"),
        ("PENSTOCK_SITES", "many", "`sites` cannot be `many`"),
        ("PENSTOCK_FLUSH", "soon", "the setting `flush` cannot be 'soon'"),
        ("PENSTOCK_SITE", "3", "no setting has the environment variable PENSTOCK_SITE"),
    ],
)
def test_a_wrong_variable_is_named(variable: str, text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, text)
    what, detail, hint = refusal()
    assert (what, bool(detail), bool(hint)) == (told, True, True)


def test_variables_of_others_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FAULT", "FAULT_ONCE", "SEED", "ALL", "REWRITE", "CLASS_ARCHIVE", "BENCH_CORES", "TEST_MARK"):
        monkeypatch.setenv(f"PENSTOCK_{name}", "x")
    monkeypatch.setenv("PENSTOCK_SITES", "")
    assert given_settings() == {}
