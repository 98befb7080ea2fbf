"""Names of types in the text."""

from __future__ import annotations

import pyarrow as pa

from penstock.errors import QueryError
from penstock.types import arrow_type


def type_named(written: str) -> pa.DataType:
    """The type a user wrote."""
    try:
        return arrow_type(written)
    except ValueError as error:  # a DECIMAL of impossible width
        raise QueryError(
            f"the type {written} is impossible",
            detail=str(error),
            hint="choose one that holds the values, as in DECIMAL(18, 3)",
        ) from error
