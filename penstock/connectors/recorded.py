"""Check the progress that a manifest recorded, plain JSON, before a source continues from it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from penstock.errors import SourceError

Recorded = TypeVar("Recorded")
NonNegative = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def recorded(progress: dict[str, Any], kind: type[Recorded]) -> Recorded:
    """Return the progress as a value of `kind`; raise SourceError if it does not have that shape."""
    try:
        return msgspec.convert(progress, kind)
    except msgspec.ValidationError as error:
        raise unusable(str(error)) from error


def unusable(detail: str) -> SourceError:
    """Return the error for progress that this source cannot have recorded."""
    return SourceError(
        "the recorded progress does not belong to this source",
        detail=detail,
        hint="restore the newest manifest from a backup, or start with a new checkpoint",
    )
