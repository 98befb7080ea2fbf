"""The order and the colours of steps, the same in the terminal and on the page: a hue for each place, a shade for each
step. Greys are time in which a core had nothing to do."""

from __future__ import annotations

from collections.abc import Sequence

from penstock_bench.profile.shares import REST, Place, Profile, Step

PLACES: tuple[Place, ...] = ("route", "site", "spark", "driver")
PLACE_COLOURS: dict[Place, str] = {"route": "#2f6fb0", "site": "#d0702a", "spark": "#8a929b", "driver": "#8a5bb0"}
# Neighbours in a list differ in lightness, for they are neighbours in a bar too.
_SHADES: dict[Place, tuple[str, ...]] = {
    "route": ("#1f5c99", "#6fb1e8", "#2f86c8", "#a9d3f2", "#17466f", "#4aa3a8", "#8fd0cf"),
    "site": ("#c2571a", "#f6b26b", "#e07b39", "#ffd9a0", "#8f3a0e", "#d9a514", "#f2d35e", "#a9761a"),
    "spark": ("#9aa3ad", "#c9cfd6", "#7b8590", "#dfe3e8", "#5f6973"),
    "driver": ("#7a4ba3", "#c9a3e6", "#9a6bc4", "#e2cdf3", "#57307a", "#b34f8f"),
}


def steps_in_order(profile: Profile) -> list[Step]:
    """Every step that took time, by place, and within a place as they follow each other; a rest comes last."""
    seen = dict.fromkeys(step for epoch in profile.parts for step in epoch)
    return sorted(seen, key=lambda step: (PLACES.index(step.place), step.name == REST))


def colours(steps: Sequence[Step]) -> dict[Step, str]:
    """A colour for each step; two steps of one place differ, as long as there are shades."""
    chosen: dict[Step, str] = {}
    for place in PLACES:
        here = [step for step in steps if step.place == place]
        chosen |= {step: _SHADES[place][number % len(_SHADES[place])] for number, step in enumerate(here)}
    return chosen


def ink_on(colour: str) -> str:
    """Black or white, whichever is easier to read on the colour."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else "#ffffff"
