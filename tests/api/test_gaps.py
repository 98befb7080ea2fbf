"""Windows with gaps between them: a warning that says what is missed, unless the user says that it is meant."""

from __future__ import annotations

import warnings

import pytest

import penstock as ps
from penstock.api.script import read_script
from penstock.errors import PenstockWarning


def test_python_warns_at_the_line_of_the_user() -> None:
    with pytest.warns(PenstockWarning, match="83.3% of the time in no window") as caught:
        ps.sliding("10s", every="1m")
    assert caught[0].filename == __file__
    assert "gaps=True" in str(caught[0].message)


def test_python_does_not_warn_of_what_is_meant() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.sliding("10s", every="1m", gaps=True)
        ps.sliding("1m", every="10s")
        ps.tumbling("10s")


def warnings_of(window: str) -> list[str]:
    text = f"""CREATE SOURCE calls (WATERMARK FOR ts AS ts) WITH (connector = 'calls', rows = 10);
    SELECT window_start, count(*) AS n FROM {window} GROUP BY window_start"""
    return [str(warning) for warning in read_script(text).warnings]


HOP = "HOP(calls, ts, INTERVAL '1' MINUTE, INTERVAL '10' SECOND{})"


@pytest.mark.parametrize(
    "window", [HOP.format(""), HOP.format(", gaps => false"), "calls [RANGE 10 SECONDS SLIDE 1 MINUTE]"]
)
def test_a_script_warns_with_the_place(window: str) -> None:
    (found,) = warnings_of(window)
    assert "83.3% of the time in no window" in found
    assert "script, line 2, column" in found
    assert "HOP takes the slide before the size" in found


@pytest.mark.parametrize(
    "window",
    [
        HOP.format(", gaps => true"),
        HOP.format(", gaps = true"),
        HOP.format(", INTERVAL '5' SECOND, gaps => true"),
        "calls [RANGE 10 SECONDS SLIDE 1 MINUTE GAPS]",
        "HOP(calls, ts, INTERVAL '10' SECOND, INTERVAL '1' MINUTE)",
    ],
)
def test_a_script_does_not_warn_of_what_is_meant(window: str) -> None:
    assert warnings_of(window) == []


def test_a_window_that_is_read_twice_warns_once() -> None:
    view = f"CREATE VIEW w AS SELECT window_start, count(*) AS n FROM {HOP.format('')} GROUP BY window_start;"
    text = "CREATE SOURCE calls (WATERMARK FOR ts AS ts) WITH (connector = 'calls', rows = 10);" + view
    assert len(read_script(text + "SELECT * FROM w; SELECT * FROM w").warnings) == 1
