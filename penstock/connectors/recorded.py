"""Progress as a manifest gives it back: plain JSON that is checked before a source goes on from it."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import msgspec

from penstock.errors import SourceError

Kind = TypeVar("Kind")
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def recorded(progress: dict[str, Any], kind: type[Kind]) -> Kind:
    """Return the progress as a value of `kind`; raise an error where it is none."""
    try:
        return msgspec.convert(progress, kind)
    except msgspec.ValidationError as error:
        raise unusable(str(error)) from error


def unusable(detail: str) -> SourceError:
    """Return the error for progress that this source cannot have recorded."""
    return SourceError(
        "the recorded progress is not of this source",
        detail=detail,
        hint="restore the newest manifest from a backup, or start again with a new checkpoint",
    )
