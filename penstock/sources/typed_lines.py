"""Columns of texts to typed rows, with the lines set aside that have a malformed value or no time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.sources.bad_rows import null_time_reason
from penstock.sources.text_lines import BadLines, Lines
from penstock.sources.text_values import parse, reasons


@dataclass(frozen=True)
class TextColumn:
    """The texts of a column, one a line (null: no value), and where the text is none of the column's kind at all."""

    texts: pa.Array
    misfit: npt.NDArray[np.bool_]


def typed_rows(lines: Lines, columns: list[TextColumn], schema: pa.Schema, time: str) -> tuple[pa.Table, BadLines]:
    """The rows of the well-formed lines, and the other lines; a line is reported for its first malformed column."""
    why = pa.nulls(len(lines.text), pa.string())
    arrays = []
    for field, column in zip(schema, columns, strict=True):
        values, bad = parse(_without(column.texts, column.misfit), field.type)
        arrays.append(values)
        bad |= column.misfit
        if bad.any():
            why = pc.coalesce(why, _where(bad, reasons(field.name, column.texts, field.type)))
        if field.name == time:
            empty = np.asarray(pc.is_null(values)) & ~bad
            why = pc.coalesce(why, _where(empty, pa.repeat(pa.scalar(null_time_reason(time)), len(empty))))
    return _part(lines, pa.table(arrays, schema=schema), why)


def _part(lines: Lines, rows: pa.Table, why: pa.Array) -> tuple[pa.Table, BadLines]:
    good = np.asarray(pc.is_null(why))
    wrong = lines.where(~good)
    if good.all():
        return rows, BadLines(wrong.ordinals, why.slice(0, 0), wrong.text)
    mask = pa.array(good)
    return rows.filter(mask), BadLines(wrong.ordinals, why.filter(pc.invert(mask)), wrong.text)


def _where(mask: npt.NDArray[np.bool_], values: pa.Array) -> pa.Array:
    return pc.if_else(pa.array(mask), values, pa.scalar(None, values.type))


def _without(texts: pa.Array, mask: npt.NDArray[np.bool_]) -> pa.Array:
    return _where(~mask, texts) if mask.any() else texts
