"""What must hold of a band join before it can run."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from penstock.errors import QueryError, did_you_mean
from penstock.kernels.hash import check_key_type
from penstock.operators.band_join.lifetimes import PRESERVED
from penstock.types import is_time_type, require_column, sql_type

Names = Sequence[Sequence[str]]


def check_join(kind: str, schemas: Sequence[pa.Schema], keys: Names, times: Sequence[str], payload: Names) -> None:
    """An error unless these parts make a join."""
    _check_inputs(kind, len(schemas))
    _check_keys(schemas, keys)
    for number, (schema, time) in enumerate(zip(schemas, times, strict=True)):
        type_ = require_column(schema, time, f"input {number + 1} of a join").type
        if not is_time_type(type_):
            hint = "use a TIMESTAMP or a BIGINT column"
            raise QueryError(f"a join cannot be over the time `{time}`", detail=sql_type(type_), hint=hint)
    _check_payload(schemas, payload)


def _check_inputs(kind: str, inputs: int) -> None:
    if kind not in PRESERVED:
        raise QueryError(f"there is no {kind} join", hint=did_you_mean(kind, PRESERVED))
    if inputs < 2 or (inputs > 2 and kind != "inner"):
        raise QueryError(
            f"a join of kind {kind} cannot have {inputs} input{'' if inputs == 1 else 's'}",
            detail="an inner join has two inputs or more, every other kind has two",
            hint="join two inputs at a time",
        )


def _check_keys(schemas: Sequence[pa.Schema], keys: Names) -> None:
    fields = [[require_column(s, k, "the keys of a join") for k in ks] for s, ks in zip(schemas, keys, strict=True)]
    if not all(fields) or len({len(group) for group in fields}) > 1:
        raise QueryError(
            "every input of a join needs the same number of key columns, at least one",
            detail="they have " + ", ".join(str(len(group)) for group in fields),
            hint="join on an equality between the inputs",
        )
    for group in zip(*fields, strict=True):
        check_key_type(group[0].type, group[0].name)
        if differs := next((f for f in group if f.type != group[0].type), None):
            raise QueryError(
                f"`{group[0].name}` and `{differs.name}` cannot be joined as they are",
                detail=f"they are {sql_type(group[0].type)} and {sql_type(differs.type)}",
                hint="cast one of them to the type of the other",
            )


def _check_payload(schemas: Sequence[pa.Schema], payload: Names) -> None:
    for schema, names in zip(schemas, payload, strict=True):
        for name in names:
            require_column(schema, name, "the result of a join")
    given = [name for names in payload for name in names]
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise QueryError(f"two columns of the result are called `{twice}`", hint="give one of them another name")
