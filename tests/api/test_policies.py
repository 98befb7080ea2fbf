"""Policies of users: how they are made known, chosen and refused, and what becomes of one that fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.balance import policies
from penstock.errors import ConfigError, PolicyError
from penstock.events import ChangeRefused, DirectoryChanged
from penstock.settings import Settings


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone after it."""
    monkeypatch.setattr(policies, "_known", dict(policies._known))


@dataclass(frozen=True)
class Splits:
    """Splits the first group once."""

    name: str = "splits"

    def decide(self, stats: ps.policies.RoundStats) -> Sequence[ps.policies.Decision]:
        first = stats.directory.groups[0]
        return (
            [ps.policies.Decision(ps.policies.SplitGroup(first), "to see")] if len(stats.directory.groups) == 8 else []
        )


@dataclass(frozen=True)
class Fails:
    name: str = "fails"

    def decide(self, stats: ps.policies.RoundStats) -> Sequence[ps.policies.Decision]:
        raise ValueError("no group is good enough")


@dataclass(frozen=True)
class SaysNothing:
    name: str = "says nothing"

    def decide(self, stats: ps.policies.RoundStats) -> Any:
        return None


def started(path: Path, policy: str, **options: Any) -> ps.Run:
    calls = ps.read.calls(rows=2_000, keys=50, rate=1_000, split_rows=200, progress=ps.slack("1s"))
    query = calls.group_by("caller").window(ps.tumbling("1s")).agg(n=ps.count()).to.memory()
    few = {"sites": 2, "groups_per_site": 4, "rows_per_epoch": 200, "round": "1us"}
    return query.start(str(path), **{"master": "inline", "policy": policy, **few, **options})


def test_a_policy_that_is_registered_decides(tmp_path: Path) -> None:
    ps.register_policy(Splits())
    run = started(tmp_path / "ck", "splits").wait()
    assert [e.what for e in run.events if isinstance(e, DirectoryChanged)] == ["split 000"]
    assert run.decisions == {"split": 1}


def test_one_of_penstocks_own_has_other_thresholds_under_another_name(tmp_path: Path) -> None:
    mine = ps.policies.Flux(name="calm-flux", imbalance=1e9)
    ps.register_policy(mine)
    assert policies.policy_named("calm-flux") == mine
    run = started(tmp_path / "ck", "calm-flux").wait()
    assert not [e for e in run.events if isinstance(e, DirectoryChanged | ChangeRefused)]


@pytest.mark.parametrize("policy", [Splits, object(), type("Nameless", (), {"decide": lambda stats: []})()])
def test_what_is_no_policy_is_refused(policy: Any) -> None:
    with pytest.raises(ConfigError, match="is not a policy") as caught:
        ps.register_policy(policy)
    assert "decide(round)" in caught.value.detail
    assert "not its class" in caught.value.hint


def test_a_name_is_given_once() -> None:
    with pytest.raises(ConfigError, match="a policy named `even` already exists"):
        ps.register_policy(Splits(name="even"))


FAILING_LINE = Fails.decide.__code__.co_firstlineno + 1


@pytest.mark.parametrize(
    ("policy", "raised"),
    [
        (Fails(), f"ValueError: no group is good enough ({__file__}, line {FAILING_LINE}: raise ValueError"),
        (SaysNothing(), "TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_a_policy_that_fails_ends_the_run_and_says_so(policy: Any, raised: str, tmp_path: Path) -> None:
    ps.register_policy(policy)
    with pytest.raises(PolicyError, match=f"the policy `{policy.name}` failed") as caught:
        started(tmp_path / "ck", policy.name).wait()
    assert raised in caught.value.detail
    assert "choose another policy" in caught.value.hint
    assert len(started(tmp_path / "ck", "static").wait().result())


def test_a_policy_that_nobody_knows_is_refused_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.api.launch.executor_for", lambda *_, **__: pytest.fail("it was started"))
    with pytest.raises(ConfigError, match="unknown policy `evn`") as caught:
        started(tmp_path / "ck", "evn", master="local[2]")
    assert caught.value.hint == "did you mean `even`?"
    assert not (tmp_path / "ck").exists()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"sites": 4, "least_sites": 5, "most_sites": 3}, "above 3 sites, as `most_sites` says"),
        ({"sites": 4, "least_sites": 5}, "above 4 sites, as `sites` says"),
    ],
)
def test_the_least_number_of_sites_is_not_above_the_most(settings: dict[str, int], says: str) -> None:
    with pytest.raises(ConfigError, match="`least_sites` cannot be 5") as caught:
        Settings(**settings)  # type: ignore[arg-type]
    assert says in caught.value.detail
    assert Settings(sites=4, least_sites=4, most_sites=4)
