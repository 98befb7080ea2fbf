"""Windows that leave time between them: rows there are in no window, which is seldom meant."""

from __future__ import annotations

from penstock.errors import PenstockWarning


def gap_warning(size: int, slide: int, shown: tuple[str, str], hint: str) -> PenstockWarning | None:
    """The warning for windows whose slide is larger than their size; `shown` are the two as the user reads them."""
    if not 0 < size < slide:
        return None
    missed = (slide - size) / slide
    return PenstockWarning(
        f"windows of {shown[0]} that begin every {shown[1]} leave {missed:.1%} of the time in no window",
        detail="the rows between one window and the next are in no window, and count nowhere",
        hint=hint,
    )
