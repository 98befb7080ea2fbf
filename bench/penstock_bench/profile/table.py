"""A profile for the terminal: a table of steps, and stacked bars of the whole run and of its epochs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from rich.console import Group
from rich.table import Table
from rich.text import Text

from penstock_bench.profile.colours import PLACES, colours, ink_on, steps_in_order
from penstock_bench.profile.shares import REST, Part, Profile, Step

MOST_EPOCHS = 24
_BAR_WIDTH, _SHARE_WIDTH = 72, 24
HEADINGS = ("where", "step", "seconds", "share", "median epoch", "worst epoch", "times faster")
CAPTION = (
    "wall seconds, a core without a task counting for what it waits for: driver, Spark between tasks, or a task on "
    "another core (waiting); times faster: the most that could be won, were this step free"
)


def profile_table(profile: Profile) -> Table:
    """The steps, the dearest first."""
    shades = colours(steps_in_order(profile))
    table = Table(title=verdict(profile), title_justify="left", caption=CAPTION, caption_justify="left")
    for number, heading in enumerate(HEADINGS):
        table.add_column(heading, justify="left" if number < 2 else "right")
    table.add_column("", min_width=_SHARE_WIDTH)
    scale = _SHARE_WIDTH / profile.total[0].share if profile.total else 0.0
    for part in profile.total:
        table.add_row(*part_cells(profile, part), Text("█" * round(part.share * scale), shades[part.step]))
    return table


def verdict(profile: Profile) -> str:
    """The profile in a sentence: the dearest steps."""
    dearest = ", ".join(f"{part.step} {part.share:.0%}" for part in profile.total[:3])
    cores = "1 core" if profile.cores == 1 else f"{profile.cores} cores"
    epochs = f"{len(profile.epochs)} epochs, {profile.seconds:.2f} s, {cores}"
    return f"{epochs}; dearest: {dearest}" if dearest else epochs


def times_faster(share: float) -> str:
    """How many times as fast the run would be without a step of that share."""
    return f"{1 / (1 - share):.2f}" if share < 1 else "∞"


def part_cells(profile: Profile, part: Part) -> list[str]:
    """A line of the table, under HEADINGS."""
    by_epoch = [parts.get(part.step, 0.0) for parts in profile.parts]
    return [
        part.step.place,
        part.step.name,
        f"{part.seconds:.3f}",
        f"{part.share:.1%}",
        f"{median(by_epoch) * 1e3:.1f} ms",
        f"{max(by_epoch) * 1e3:.1f} ms",
        times_faster(part.share),
    ]


def profile_bars(profile: Profile, width: int = _BAR_WIDTH) -> Group:
    """A stacked bar of the whole, then one for each epoch, drawn to the scale of the longest one shown."""
    order = steps_in_order(profile)
    shown = longest_epochs(profile, MOST_EPOCHS)
    longest = max((profile.epochs[number].seconds for number in shown), default=0.0)
    lines = [_line("all", profile.seconds, stacked_bar(_sums(profile), order, width))]
    for number in shown:
        seconds = profile.epochs[number].seconds
        room = round(width * seconds / longest) if longest else 0
        lines.append(_line(str(profile.epochs[number].epoch), seconds, stacked_bar(profile.parts[number], order, room)))
    if len(shown) < len(profile.epochs):
        lines.append(Text(f"the {len(shown)} longest of {len(profile.epochs)} epochs", "dim"))
    return Group(_legend(order), *lines)


def longest_epochs(profile: Profile, most: int) -> list[int]:
    """The positions of the longest epochs, in the order of the run."""
    by_length = sorted(range(len(profile.epochs)), key=lambda number: -profile.epochs[number].seconds)
    return sorted(by_length[:most])


def _sums(profile: Profile) -> dict[Step, float]:
    return {part.step: part.seconds for part in profile.total}


def _line(label: str, seconds: float, bar: Text) -> Text:
    return Text.assemble((f"{label:>6} {seconds:8.3f} s ", "bold" if label == "all" else ""), bar)


def stacked_bar(parts: Mapping[Step, float], order: Sequence[Step], width: int) -> Text:
    """Exactly `width` characters: the rounding error of one step is carried to the next."""
    shades, total = colours(order), sum(parts.values())
    bar, passed, drawn = Text(no_wrap=True), 0.0, 0
    for step in order:
        passed += parts.get(step, 0.0)
        until = round(width * passed / total) if total else 0
        bar.append(_block(step, until - drawn), f"{ink_on(shades[step])} on {shades[step]}")
        drawn = until
    return bar


def _block(step: Step, width: int) -> str:
    """The name where it fits. The edge tells blocks apart where there are no colours."""
    name = step.place if step.name == REST else step.name
    return f"▏{name if len(name) < width else '':{width - 1}}" if width else ""


def _legend(order: Sequence[Step]) -> Table:
    """A line for each place."""
    shades, grid = colours(order), Table.grid(padding=(0, 2, 0, 0))
    for place in PLACES:
        here = [Text.assemble(("██", shades[step]), f" {step.name}") for step in order if step.place == place]
        if here:
            grid.add_row(f"{place:>6}", Text("  ").join(here))
    return grid
