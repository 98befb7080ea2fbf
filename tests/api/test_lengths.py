"""Lengths of time without a unit: fine where a time is a number, refused where it is a TIMESTAMP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.errors import PenstockError
from penstock.plan.logical import Aggregate, Join, Source
from penstock.progress.mark import Slack


def stream(type_: pa.DataType, **options: object) -> Stream:
    schema = pa.schema([("ts", type_), ("k", pa.int64())])
    return ps.read.table(schema.empty_table(), time="ts", **options)  # type: ignore[arg-type]


STAMPS, NUMBERS = stream(pa.timestamp("us")), stream(pa.int64())

USES: dict[str, Callable[[Stream], object]] = {
    "tumbling": lambda s: s.window(ps.tumbling(60)),
    "sliding": lambda s: s.window(ps.sliding(60, every=10)),
    "offset": lambda s: s.window(ps.tumbling(60, offset=5)),
    "windowed": lambda s: s.windowed(ps.tumbling(60)),
    "session": lambda s: s.window(ps.session(60)),
    "join": lambda s: s.join(s, "k", within=5),
    "join, one side": lambda s: s.join(s, "k", within=(1, 5)),
    "theta join": lambda s: s.theta_join(s, "k < right_k", within=5),
    "join_all": lambda s: ps.join_all([s, s], "k", within=5),
}


@pytest.mark.parametrize("use", USES)
def test_a_number_over_a_timestamp_is_refused(use: str) -> None:
    USES[use](NUMBERS)
    with pytest.raises(PenstockError, match="has no unit") as caught:
        USES[use](STAMPS)
    assert "for seconds" in caught.value.hint


def test_a_slack_without_a_unit() -> None:
    assert stream(pa.int64(), progress=ps.slack(5)).node.progress == Slack(5)  # type: ignore[union-attr]
    with pytest.raises(PenstockError, match="the slack over a TIMESTAMP has no unit"):
        stream(pa.timestamp("us"), progress=ps.slack(5))


@pytest.mark.parametrize("setting", ["epoch", "deadline", "round"])
def test_times_by_the_clock_always_have_a_unit(setting: str) -> None:
    with pytest.raises(PenstockError, match=f"the setting `{setting}` has no unit"):
        NUMBERS.to.memory().start(master="inline", **{setting: 2})


def test_a_lead_without_a_unit(tmp_path: Path) -> None:
    NUMBERS.to.memory().start(str(tmp_path / "ck"), master="inline", max_lead=5).wait()
    with pytest.raises(PenstockError, match="`max_lead` of a query over a TIMESTAMP has no unit"):
        STAMPS.to.memory().start(master="inline", max_lead=5)


def test_nothing_needs_no_unit() -> None:
    node = STAMPS.join(STAMPS, "k", within=(0, "1s")).node
    assert isinstance(node, Join)
    assert (node.bands[0].before, node.bands[0].after) == (0, 1_000_000)


def test_a_timedelta_is_a_length() -> None:
    window = STAMPS.window(ps.tumbling(timedelta(minutes=1))).agg(n=ps.count()).wide
    assert isinstance(window, Aggregate)
    assert window.window.size == 60_000_000  # type: ignore[union-attr]
    source = stream(pa.timestamp("us"), progress=ps.slack(timedelta(seconds=2))).node
    assert isinstance(source, Source)
    assert source.progress == Slack(2_000_000)


@pytest.mark.parametrize("length", [1.5, None, True, ("1s",)])
def test_what_is_no_length_is_refused(length: object) -> None:
    with pytest.raises(PenstockError, match="cannot be"):
        ps.tumbling(length)  # type: ignore[arg-type]
