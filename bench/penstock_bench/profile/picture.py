"""The pictures of a profile: the whole run as a flame of places and steps, its epochs as stacked bars, and single
epochs as lanes of time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock_bench.profile.colours import PLACE_COLOURS, PLACES, colours, steps_in_order
from penstock_bench.profile.shares import RUN, Place, Profile, Span, Step, driver_spans, task_spans
from penstock_bench.profile.svg import Block, block, duration, line, picture, ticks, track, words
from penstock_bench.profile.table import longest_epochs, verdict

MOST_EPOCHS = 120
_WIDTH, _LEFT, _RIGHT = 1040.0, 130.0, 16.0
_ROOM = _WIDTH - _LEFT - _RIGHT
_LAYER, _LANE, _BARS = 26.0, 24.0, 190.0  # heights


def write_picture(profile: Profile, path: Path) -> None:
    """All pictures in one SVG file."""
    path.write_text(profile_svg(profile), encoding="utf-8")


def profile_svg(profile: Profile) -> str:
    """The flame, the epochs, and the lanes of the epoch of median length and of the longest."""
    top, shapes = 0.0, list[str]()
    for drawn, height in _panels(profile):
        shapes.append(f'<g transform="translate(0 {top:.0f})">{"".join(drawn)}</g>')
        top += height
    return picture(_WIDTH, top, verdict(profile), shapes)


def _panels(profile: Profile) -> Iterator[tuple[Iterable[str], float]]:
    yield _flame(profile), 34 + 3 * _LAYER + 20
    yield _legend(profile)
    yield _epoch_bars(profile), 34 + _BARS + 40
    for title, number in chosen_epochs(profile).items():
        yield _lanes(profile, number, title), 34 + _LANE * (len(lanes(profile, number)) + 1) + 44


def _flame(profile: Profile) -> Iterator[str]:
    yield words(0, 16, "The whole run: " + verdict(profile), weight="bold")
    scale = _ROOM / profile.seconds if profile.seconds else 0.0
    yield block(Block(_LEFT, 28, _ROOM, _LAYER, "#4a525b", "all", f"all: {duration(profile.seconds)}"))
    shades, left, by_step = colours(steps_in_order(profile)), _LEFT, {part.step: part for part in profile.total}
    for place in PLACES:
        here = [by_step[step] for step in steps_in_order(profile) if step.place == place]
        yield from _place_block(place, left, sum(p.seconds for p in here) * scale, sum(p.share for p in here))
        for part in here:
            width, told = part.seconds * scale, f"{part.share:.1%}, {duration(part.seconds)}"
            label = f"{part.step.name} {part.share:.0%}, {duration(part.seconds)}"
            yield block(Block(left, 28 + 2 * _LAYER, width, _LAYER, shades[part.step], label, f"{part.step}: {told}"))
            left += width


def _place_block(place: Place, left: float, width: float, share: float) -> Iterator[str]:
    if width:
        label = f"{place} {share:.0%}"
        yield block(Block(left, 28 + _LAYER, width, _LAYER, PLACE_COLOURS[place], label, label))


def _legend(profile: Profile) -> tuple[list[str], float]:
    """A line for each place."""
    order, shapes, top = steps_in_order(profile), list[str](), 0.0
    shades = colours(order)
    for place in PLACES:
        here, left = [step for step in order if step.place == place], _LEFT
        shapes += [words(_LEFT - 8, top + 10, place, "end")] if here else []
        for step in here:
            shapes += [
                block(Block(left, top, 14, 12, shades[step], "", str(step))),
                words(left + 19, top + 10, step.name),
            ]
            left += 40 + 7 * len(step.name)
        top += 18 if here else 0
    return shapes, top + 18


def _epoch_bars(profile: Profile) -> Iterator[str]:
    shown = longest_epochs(profile, MOST_EPOCHS)
    left_out = "" if len(shown) == len(profile.epochs) else f", the {len(shown)} longest of {len(profile.epochs)}"
    yield words(0, 16, f"Epochs{left_out}", weight="bold")
    longest = max((profile.epochs[number].seconds for number in shown), default=0.0)
    bottom, scale = 30 + _BARS, _BARS / longest if longest else 0.0
    for value in ticks(longest, 5):
        yield line(_LEFT, bottom - value * scale, _WIDTH - _RIGHT, bottom - value * scale)
        yield words(_LEFT - 8, bottom - value * scale + 4, duration(value), "end")
    pitch = min(_ROOM / max(len(shown), 1), 64.0)
    for at, number in enumerate(shown):
        yield from _epoch_bar(profile, number, _LEFT + at * pitch, bottom, pitch, scale)
        if at % max(1, round(28 / pitch)) == 0:
            yield words(_LEFT + (at + 0.45) * pitch, bottom + 15, str(profile.epochs[number].epoch), "middle")


def _epoch_bar(profile: Profile, number: int, left: float, bottom: float, pitch: float, scale: float) -> Iterator[str]:
    order, parts, epoch = steps_in_order(profile), profile.parts[number], profile.epochs[number]
    shades = colours(order)
    for step in (step for step in order if step in parts):
        height = parts[step] * scale
        bottom -= height
        tip = f"epoch {epoch.epoch}, {step}: {duration(parts[step])} of {duration(epoch.seconds)}"
        yield block(Block(left, bottom, pitch * 0.9, height, shades[step], step.name, tip))


def chosen_epochs(profile: Profile) -> dict[str, int]:
    """The epochs shown as lanes, by title: a typical one and the worst."""
    by_length = sorted(range(len(profile.epochs)), key=lambda number: profile.epochs[number].seconds)
    if not by_length:
        return {}
    typical, worst = by_length[(len(by_length) - 1) // 2], by_length[-1]
    if typical == worst:
        return {"The epoch": worst}
    return {"The epoch of median length": typical, "The longest epoch": worst}


def lanes(profile: Profile, number: int) -> dict[str, list[Span]]:
    """What each worker does during an epoch, by worker, in the order of their numbers."""
    found: dict[str, list[Span]] = {}
    for span in sorted(task_spans(profile.epochs, number), key=lambda span: span.start):
        found.setdefault(span.lane, []).append(span)
    return {name: found[name] for name in sorted(found, key=lambda name: (name.zfill(9), name))}


def _lanes(profile: Profile, number: int, title: str) -> Iterator[str]:
    epoch = profile.epochs[number]
    yield words(0, 16, f"{title}: epoch {epoch.epoch}, {duration(epoch.seconds)}", weight="bold")
    scale = _ROOM / epoch.seconds if epoch.seconds else 0.0
    rows = {"driver": driver_spans(epoch)} | {f"worker {name}": spans for name, spans in lanes(profile, number).items()}
    bottom = 28 + _LANE * len(rows)
    for value in ticks(epoch.seconds):
        yield line(_LEFT + value * scale, 28, _LEFT + value * scale, bottom + 4)
        yield words(_LEFT + value * scale, bottom + 18, duration(value), "middle")
    shades = colours(steps_in_order(profile))
    for at, (name, spans) in enumerate(rows.items()):
        yield from _lane(f"{name}, {_busy(spans, epoch.seconds):.0%}", spans, 28 + at * _LANE, scale, shades)


def _busy(spans: Iterable[Span], seconds: float) -> float:
    """The share of the epoch in which a lane works; the driver does not while it waits for the job."""
    worked = sum(span.end - span.start for span in spans if span.step != Step("driver", RUN))
    return worked / seconds if seconds else 0.0


def _lane(label: str, spans: Iterable[Span], top: float, scale: float, shades: dict[Step, str]) -> Iterator[str]:
    yield words(_LEFT - 8, top + 15, label, "end")
    yield track(_LEFT, top + 1, _ROOM, _LANE - 3)
    for span in spans:
        if span.step != Step("driver", RUN):
            left, width = _LEFT + span.start * scale, (span.end - span.start) * scale
            tip = f"{span.task}, {span.step}: {duration(span.end - span.start)} from {duration(span.start)}"
            # A step that only ran beside tasks has no part of its own, and so no shade.
            shade = shades.get(span.step, PLACE_COLOURS[span.step.place])
            yield block(Block(left, top + 1, width, _LANE - 3, shade, span.step.name, tip))
