"""The warning for windows with gaps between them. Rows in a gap are in no window, which is rarely intended."""

from __future__ import annotations

from penstock.errors import PenstockWarning


def gap_warning(size: int, slide: int, shown: tuple[str, str], hint: str) -> PenstockWarning | None:
    """Return the warning for windows whose slide is larger than their size; None for others. `shown` has both as
    text."""
    if not 0 < size < slide:
        return None
    missed = (slide - size) / slide
    return PenstockWarning(
        f"windows of {shown[0]} that begin every {shown[1]} leave {missed:.1%} of the time in no window",
        detail="rows between one window and the next are in no window and are not counted",
        hint=hint,
    )
