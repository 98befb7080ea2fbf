"""Format marks for people."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from penstock.plan.logical import Source
from penstock.progress.mark import MIN_TIME

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def as_moment(mark: int | None, source: Source) -> datetime | int | None:
    """Return a mark in the unit of a source's times: a datetime if these are timestamps (if it can be represented),
    otherwise a number; None if nothing is known yet."""
    if mark is None or mark == MIN_TIME:
        return None
    if not pa.types.is_timestamp(source.schema.field(source.time).type):
        return mark
    try:
        return _EPOCH + timedelta(microseconds=mark)
    except OverflowError:
        return mark
