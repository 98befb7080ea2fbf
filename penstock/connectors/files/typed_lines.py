"""Turn typed columns into rows, and separate the lines that have a malformed value or no time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.arrow import AnyArray, where
from penstock.connectors.bad_rows import null_time_reason
from penstock.connectors.files.text_lines import BadLines, Lines
from penstock.connectors.files.text_values import parse, reasons

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TypedColumn:
    """The values of a column, one per line. `why` has the reasons of malformed values and null for others; None if all
    are valid."""

    values: AnyArray
    why: AnyArray | None = None


def parsed_column(name: str, texts: AnyArray, type_: pa.DataType, misfit: Mask | None = None) -> TypedColumn:
    """Parse texts to values (null: no value); `misfit` marks texts of a different kind, which are malformed in any
    case."""
    if misfit is None or not misfit.any():
        values, bad = parse(texts, type_)
    else:
        values, bad = parse(where_true(~misfit, texts), type_)
        bad |= misfit
    return TypedColumn(values, where_true(bad, reasons(name, texts, type_)) if bad.any() else None)


def typed_rows(lines: Lines, columns: Sequence[TypedColumn], schema: pa.Schema, time: str) -> tuple[pa.Table, BadLines]:
    """Return the rows of well-formed lines, and the malformed lines, each with the reason of its first malformed
    column."""
    why = []
    for field, column in zip(schema, columns, strict=True):
        why.append(column.why)
        if field.name == time and column.values.null_count:
            why.append(where_true(np.asarray(pc.is_null(column.values)), null_time_reason(time)))
    rows = pa.table([column.values for column in columns], schema=schema)
    return _part(lines, rows, first_reason(why))


def _part(lines: Lines, rows: pa.Table, why: AnyArray | None) -> tuple[pa.Table, BadLines]:
    """Divide the rows by `why`: those without a reason are well-formed."""
    if why is None or why.null_count == len(why):
        nothing = lines.where(np.zeros(len(lines.text), np.bool_))
        return rows, BadLines(nothing.ordinals, pa.array([], pa.string()), nothing.text)
    good = np.asarray(pc.is_null(why))
    wrong = lines.where(~good)
    return rows.filter(pa.array(good)), BadLines(wrong.ordinals, why.drop_null(), wrong.text)


def first_reason(reasons: Iterable[AnyArray | None]) -> AnyArray | None:
    """Return the first reason of each line; None if no column has reasons."""
    given = [why for why in reasons if why is not None]
    return pc.coalesce(*given) if given else None


@overload
def where_true(mask: Mask, values: AnyArray | str) -> AnyArray: ...
@overload
def where_true(mask: Mask, values: AnyArray | str | None) -> AnyArray | None: ...
def where_true(mask: Mask, values: AnyArray | str | None) -> AnyArray | None:
    """Return the values (or one text for all) where the mask is true, and null elsewhere."""
    if values is None:
        return None
    chosen = pa.scalar(values) if isinstance(values, str) else values
    return where(mask, chosen)
