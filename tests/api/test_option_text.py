"""Options that come as text."""

from __future__ import annotations

from dataclasses import fields

import pytest

from penstock.api.option_text import point_in_time, read_options, read_settings, whole_number, yes_or_no
from penstock.errors import ConfigError
from penstock.settings import Settings


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


@pytest.mark.parametrize("name", [field.name for field in fields(Settings)])
def test_every_setting_can_be_read(name: str) -> None:
    value = getattr(Settings(), name)
    text = "1" if value is None else str(value)
    assert read_settings({name: text})[name] in (value, 1)


def test_a_value_that_cannot_be_read_is_named() -> None:
    with pytest.raises(ConfigError) as raised:
        read_options({"rows": "1e3"}, {"rows": whole_number}, "it")
    assert (raised.value.what, raised.value.detail) == ("`rows` cannot be `1e3`", "it is not a whole number")
