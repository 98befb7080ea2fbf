"""Spans of time as text, to microseconds and back."""

from __future__ import annotations

import pytest

from penstock.errors import ConfigError
from penstock.units import span, span_text


@pytest.mark.parametrize(
    ("text", "microseconds"),
    [
        ("500ms", 500_000),
        ("1.5 h", 5_400_000_000),
        ("2 Seconds", 2_000_000),
        ("-3 us", -3),
        ("1 week", 604_800_000_000),
    ],
)
def test_a_span_with_a_unit(text: str, microseconds: int) -> None:
    assert span(text) == microseconds


@pytest.mark.parametrize("text", ["5", "s", "1 fortnight", "1 month", "1s 2s"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a span of time"):
        span(text)


def test_a_span_is_written_in_the_largest_unit_that_divides_it() -> None:
    assert [span_text(value, True) for value in (0, 90_000_000, -7_200_000_000, 1_001)] == ["0", "90s", "-2h", "1001us"]
    assert span_text(90_000_000, False) == "90000000"
