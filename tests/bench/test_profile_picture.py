from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console, RenderableType

from penstock_bench.profile.colours import colours, ink_on, steps_in_order
from penstock_bench.profile.picture import chosen_epochs, lanes, profile_svg, write_picture
from penstock_bench.profile.shares import EpochProfile, Kind, Profile, Step, TaskProfile, profile_of
from penstock_bench.profile.svg import ticks
from penstock_bench.profile.table import (
    MOST_EPOCHS,
    longest_epochs,
    profile_bars,
    profile_table,
    stacked_bar,
    times_faster,
    verdict,
)

SVG = "{http://www.w3.org/2000/svg}"


def task(kind: Kind, worker: str, started: float, **steps: float) -> TaskProfile:
    return TaskProfile(f"{kind}-{worker}", kind, worker, started, sum(steps.values()), steps)


def epoch(number: int, scale: float) -> EpochProfile:
    """A tenth of planning; two tenths of reading, three of work and two of write on both workers; two of commit."""
    tasks = [
        one
        for worker in ("<a>", "b")
        for one in (
            task("route", worker, 0.1 * scale, read=0.2 * scale),
            task("site", worker, 0.3 * scale, work=0.3 * scale, write=0.2 * scale),
        )
    ]
    return EpochProfile(number, scale, {"plan": 0.1 * scale, "run": 0.7 * scale, "commit": 0.2 * scale}, tuple(tasks))


PROFILE = profile_of([epoch(1, 1.0), epoch(2, 4.0), epoch(3, 2.0)], 2)
ORDER = [
    Step("route", "read"),
    Step("site", "work"),
    Step("site", "write"),
    Step("driver", "plan"),
    Step("driver", "commit"),
]


def printed(shown: RenderableType) -> list[str]:
    console = Console(width=140)
    with console.capture() as capture:
        console.print(shown)
    return capture.get().splitlines()


def flame(profile: Profile) -> dict[str, tuple[float, float]]:
    """The left edge and the width of every block of the flame, by what it says when pointed at."""
    root = ElementTree.fromstring(profile_svg(profile))
    first = root.findall(f"{SVG}g")[0]
    blocks = [(group.findtext(f"{SVG}title"), group.find(f"{SVG}rect")) for group in first.findall(f"{SVG}g")]
    return {
        str(tip): (float(box.get("x", "0")), float(box.get("width", "0"))) for tip, box in blocks if box is not None
    }


def test_steps_come_by_place_and_in_time() -> None:
    assert steps_in_order(PROFILE) == ORDER
    unnamed = TaskProfile("route-0", "route", "a", 0.0, 1.0, {"read": 0.5})
    named = TaskProfile("route-1", "route", "a", 1.0, 0.5, {"encode": 0.5})
    names = [step.name for step in steps_in_order(profile_of([EpochProfile(1, 1.5, {}, (unnamed, named))], 1))]
    assert names == ["read", "encode", "rest"]


def test_the_table_shows_the_dearest_first() -> None:
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed(profile_table(PROFILE)) if "│" in line]
    assert rows[0][:2] == ["site", "work"]
    assert rows[0][2:7] == ["2.100", "30.0%", "600.0 ms", "1200.0 ms", "1.43"]
    assert rows[-1][2] == "0.700"
    assert len(rows) == len(ORDER)
    assert rows[0][7].count("█") == 24
    assert rows[-1][7].count("█") == 8


def test_the_verdict_names_the_next_bottleneck() -> None:
    assert verdict(PROFILE).startswith("3 epochs, 7.00 s, 2 cores; dearest: site: work 30%, ")
    assert verdict(profile_of([], 2)) == "0 epochs, 0.00 s, 2 cores"


def test_what_could_be_won() -> None:
    assert [times_faster(share) for share in (0.0, 0.5, 1.0)] == ["1.00", "2.00", "∞"]


def test_a_bar_is_as_wide_as_asked_and_each_block_as_its_share() -> None:
    bar = stacked_bar(PROFILE.parts[0], ORDER, 50)
    assert bar.plain == "▏read     ▏work          ▏write    ▏plan▏commit   "
    assert len(stacked_bar(dict.fromkeys(ORDER, 1.0), ORDER, 13).plain) == 13
    assert stacked_bar({}, ORDER, 13).plain == ""


def test_epochs_are_drawn_to_one_scale() -> None:
    lines = [line for line in printed(profile_bars(PROFILE, 60)) if " s ▏" in line]
    assert [line.split()[:2] for line in lines] == [["all", "7.000"], ["1", "1.000"], ["2", "4.000"], ["3", "2.000"]]
    assert [line.count("▏") for line in lines] == [5, 5, 5, 5]
    starts = [line.index("▏commit") if "▏commit" in line else None for line in lines]
    assert starts == [18 + 48, None, 18 + 48, None]


def test_of_many_epochs_the_longest_are_shown() -> None:
    many = profile_of([epoch(number, 1.0 + number % 7) for number in range(100)], 2)
    shown = longest_epochs(many, MOST_EPOCHS)
    assert shown == sorted(shown)
    assert min(many.epochs[n].seconds for n in shown) >= max(
        epoch.seconds for n, epoch in enumerate(many.epochs) if n not in shown
    )
    assert printed(profile_bars(many))[-1] == f"the {MOST_EPOCHS} longest of 100 epochs"


@pytest.mark.parametrize("layer", [r"\w+ \d+%", r"\w+: \w+: .*"])
def test_every_layer_of_the_flame_covers_the_run(layer: str) -> None:
    found = flame(PROFILE)
    left, whole = found["all: 7000 ms"]
    for start, width in (block for tip, block in found.items() if re.fullmatch(layer, tip)):
        assert start == pytest.approx(left, abs=0.02)
        left += width
    assert left == pytest.approx(sum(found["all: 7000 ms"]), abs=0.1)
    assert whole > 500


def test_a_block_of_the_flame_is_as_wide_as_its_share() -> None:
    found = flame(PROFILE)
    whole = found["all: 7000 ms"][1]
    assert found["site: work: 30.0%, 2100 ms"][1] == pytest.approx(0.3 * whole, abs=0.02)
    assert found["site 50%"][1] == pytest.approx(0.5 * whole, abs=0.02)


def test_lanes_are_the_workers() -> None:
    found = lanes(PROFILE, 1)
    assert set(found) == {"<a>", "b"}
    assert [(span.step.name, round(span.start, 6), round(span.end, 6)) for span in found["b"]] == [
        ("read", 0.4, 1.2),
        ("work", 1.2, 2.4),
        ("write", 2.4, 3.2),
    ]


def test_lanes_are_in_the_order_of_their_numbers() -> None:
    tasks = tuple(task("route", worker, start, read=0.1) for worker, start in (("10", 0.0), ("2", 0.2), ("1", 0.4)))
    assert list(lanes(profile_of([EpochProfile(1, 1.0, {"run": 1.0}, tasks)], 2), 0)) == ["1", "2", "10"]


def test_a_typical_epoch_and_the_longest_are_shown_as_lanes(tmp_path: Path) -> None:
    assert chosen_epochs(PROFILE) == {"The epoch of median length": 2, "The longest epoch": 1}
    assert chosen_epochs(profile_of([epoch(1, 1.0)], 2)) == {"The epoch": 0}
    write_picture(PROFILE, tmp_path / "profile.svg")
    texts = [one.text for one in ElementTree.parse(tmp_path / "profile.svg").iter(f"{SVG}text")]
    assert "The longest epoch: epoch 2, 4000 ms" in texts
    assert texts.count("worker <a>, 70%") == 2
    assert texts.count("driver, 30%") == 2


def test_an_empty_profile_can_be_shown() -> None:
    empty = profile_of([], 2)
    assert "0 epochs" in profile_svg(empty)
    assert any("where" in line for line in printed(profile_table(empty)))
    assert any("all" in line for line in printed(profile_bars(empty)))


def test_steps_of_a_place_have_shades_of_their_own() -> None:
    steps = [Step("site", name) for name in ("merge", "view", "work", "emit", "keep", "write", "rest")]
    found = colours([*steps, *ORDER[:1], *ORDER[3:]])
    assert len(set(found.values())) == len(found) == 10


def test_names_can_be_read_on_their_colour() -> None:
    assert [ink_on(colour) for colour in ("#ffd9a0", "#17466f")] == ["#000000", "#ffffff"]


@pytest.mark.parametrize(
    ("longest", "wanted"),
    [(1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (0.37, [0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35]), (0.0, [])],
)
def test_ticks_are_round(longest: float, wanted: list[float]) -> None:
    assert list(ticks(longest)) == pytest.approx(wanted)
