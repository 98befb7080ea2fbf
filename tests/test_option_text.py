"""Options that come as text."""

from __future__ import annotations

import pytest

from penstock.declared import Setting, declared
from penstock.errors import ConfigError
from penstock.option_text import point_in_time, read_options, read_settings, whole_number
from penstock.settings import Settings, yes_or_no


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00:01.000002", 1_000_002),
        ("1970-01-01T02:00:00+02:00", 0),
        ("1969-12-31 23:59:59.999999", -1),
        ("-5", -5),
        ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
    ],
)
def test_points_in_time(text: str, value: int) -> None:
    assert point_in_time(text) == value


@pytest.mark.parametrize(("text", "value"), [("true", True), ("YES", True), ("0", False), ("Off", False)])
def test_yes_or_no(text: str, value: bool) -> None:
    assert yes_or_no(text) is value


def test_settings_have_the_types_of_their_fields() -> None:
    read = read_settings({"sites": "3", "epoch_seconds": "0.5", "items": "1_000", "late": "7", "epoch": "2s"})
    assert read == {"sites": 3, "epoch_seconds": 0.5, "items": 1000, "late": "7", "epoch": "2s"}
    assert read_settings({"max_lead": "2s", "round": "1m"}) == {"max_lead": "2s", "round": "1m"}


@pytest.mark.parametrize("setting", declared(Settings), ids=lambda setting: setting.name)
def test_every_setting_can_be_read(setting: Setting) -> None:
    value = "2s" if setting.kind is float else 1 if setting.default is None else setting.default
    assert read_settings({setting.name: str(value)}) == {setting.name: value}


def test_a_value_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError) as raised:
        read_options({"rows": "1e3"}, {"rows": whole_number}, "it")
    assert (raised.value.what, raised.value.detail) == ("`rows` cannot be `1e3`", "it is not a whole number")
