"""The band join (interval join): rows of several inputs with equal keys whose times lie within bands of each other.

Rows may arrive in any order. A fresh row is joined with all stored rows and, once, with all other fresh rows; then it
is stored if future rows may need it. So a combination is found exactly once, when its last row arrives.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from penstock.errors import QueryError, did_you_mean
from penstock.expr.tree import Expr
from penstock.expr.walk import columns_of
from penstock.kernels.arrays import Indices, Times, Words
from penstock.kernels.hash import check_key_type
from penstock.operators.arrange import arranged, hashes_of, merged, times_of
from penstock.operators.band_join.lifetimes import JUDGED, PRESERVED, Lifetimes, reach
from penstock.operators.band_join.match import Matcher
from penstock.operators.band_join.state_rows import Port, with_keys
from penstock.operators.band_join.work import JoinWork
from penstock.operators.bands import Band, Leads, leads
from penstock.operators.generations import Generational
from penstock.operators.protocol import UNCOUNTED, Cuttable, Exploding, Explosion, OutputCounts, Portion, WorkResult
from penstock.operators.theta_join.ranges import band_ranges
from penstock.progress.mark import Marks, saturate
from penstock.state.hash_ranges import point
from penstock.type_names import sql_type
from penstock.types import is_time_type, require_column

Names = Sequence[Sequence[str]]


@dataclass(frozen=True)
class BandJoin(Generational, Exploding, Cuttable):
    """A join of m >= 2 inputs; port i has rows of `schemas[i]` with keys `keys[i]` and time `times[i]`, which is never
    null.

    `payload[i]` are the result columns of port i; all names differ. The condition may use all columns of all ports.
    Kinds other than inner have two inputs. `hash_bits` below 64 makes hashes collide, for tests.
    """

    kind: str
    schemas: tuple[pa.Schema, ...]
    keys: tuple[tuple[str, ...], ...]
    times: tuple[str, ...]
    payload: tuple[tuple[str, ...], ...]
    bands: tuple[Band, ...]
    condition: Expr | None = None
    hash_bits: int = 64

    def __post_init__(self) -> None:
        check_join(self.kind, self.schemas, self.keys, self.times, self.payload)

    @property
    def ports(self) -> int:
        return len(self.schemas)

    @property
    def tracks(self) -> int:
        return len(self.schemas)

    @property
    def may_cut(self) -> tuple[int, ...]:
        """Return the ports whose rows may be partitioned: all ports of an inner join; otherwise the port of the rows
        that are judged by whether they have a partner, which must see all candidates. None for a full join, which has
        two such ports."""
        ports = JUDGED[self.kind] if self.kind != "inner" else tuple(range(self.ports))
        return ports if self.kind != "full" else ()

    @property
    def result_schema(self) -> pa.Schema:
        sides = range(1 if self.kind in ("semi", "anti") else self.ports)
        return pa.schema([self.schemas[side].field(name) for side in sides for name in self.payload[side]])

    @property
    def reach(self) -> int:
        return reach(self._leads)

    @property
    def output_times(self) -> tuple[str, ...]:
        names = tuple(time if time in kept else "" for time, kept in zip(self.times, self.payload, strict=True))
        match self.kind:
            case "inner":
                return *names, *("" for _ in names)
            case "full":
                return ("",)
            case "right":
                return names[1:]
            case _:
                return names[:1]

    def output_marks(self, marks: Marks) -> Marks:
        return self._lifetimes.output_marks(marks)

    def state_schema(self, port: int) -> pa.Schema:
        return self._port(port).state_schema

    def prepare(self, port: int, rows: pa.Table) -> pa.Table:
        return self._port(port).prepare(self._useful(port, rows))

    def arrange(self, port: int, rows: pa.Table) -> pa.Table:
        return arranged(rows, self.keys[port], self.times[port], self.hash_bits)

    def prepare_arranged(self, port: int, arranged: pa.Table) -> pa.Table:
        return self._port(port).prepare_arranged(self._useful(port, arranged))

    def combine(self, port: int, tables: Sequence[pa.Table]) -> pa.Table:
        return merged(tables, self.state_schema(port))

    def due(self, after: Marks, upto: Marks, least: tuple[int | None, ...]) -> bool:
        """Return whether punctuation alone may decide stored preserved rows."""
        return any(
            (stored := least[port]) is not None
            and (times := self._lifetimes.to_decide(port, after, upto)).start < times.stop
            and stored < times.stop
            for port in PRESERVED[self.kind]
        )

    def expired_below(self, port: int, marks: Marks) -> int:
        return saturate(self._lifetimes.needed_from(port, marks))

    def span(self, port: int) -> int:
        return self._lifetimes.span(port)

    def work(self, portion: Portion, counts: OutputCounts = UNCOUNTED) -> WorkResult:
        matcher = Matcher(tuple(map(self._port, range(self.ports))), self._leads, self.condition)
        return JoinWork(self.kind, matcher, self._lifetimes, self.result_schema, self.payload, portion, counts).done()

    def explosion(self, portion: Portion, known: Collection[int]) -> Explosion | None:
        """Return a key with very many combinations. Semi and anti joins have none, because they emit each row at most
        once."""
        return None if self.kind in ("semi", "anti") else explosion(portion, self.keys, self._leads, known)

    def _port(self, number: int) -> Port:
        """Return the columns of a port that the result or the condition needs."""
        used = {*self.result_schema.names, *(() if self.condition is None else columns_of(self.condition))}
        values = tuple(name for name in self.schemas[number].names if name in used)
        return Port(number, self.schemas[number], self.keys[number], self.times[number], values, self.hash_bits)

    def _useful(self, port: int, rows: pa.Table) -> pa.Table:
        """Drop rows with a null in the key, which match nothing, unless the port's rows are preserved."""
        return rows if port in PRESERVED[self.kind] else with_keys(rows, self.keys[port])

    @property
    def _leads(self) -> Leads:
        return leads(self.ports, self.bands)

    @property
    def _lifetimes(self) -> Lifetimes:
        return Lifetimes(self.kind, self._leads)


def check_join(kind: str, schemas: Sequence[pa.Schema], keys: Names, times: Sequence[str], payload: Names) -> None:
    """Raise QueryError unless these parts form a valid join."""
    _check_inputs(kind, len(schemas))
    _check_keys(schemas, keys)
    for number, (schema, time) in enumerate(zip(schemas, times, strict=True)):
        type_ = require_column(schema, time, f"input {number + 1} of a join").type
        if not is_time_type(type_):
            hint = "use a TIMESTAMP or a BIGINT column"
            raise QueryError(f"a join cannot use `{time}` as a time", detail=sql_type(type_), hint=hint)
    _check_payload(schemas, payload)


def _check_inputs(kind: str, inputs: int) -> None:
    """Raise QueryError if the kind is unknown or does not take this number of inputs."""
    if kind not in PRESERVED:
        raise QueryError(f"there is no {kind} join", hint=did_you_mean(kind, PRESERVED))
    if inputs < 2 or (inputs > 2 and kind != "inner"):
        raise QueryError(
            f"a join of kind {kind} cannot have {inputs} input{'' if inputs == 1 else 's'}",
            detail="an inner join has two inputs or more, every other kind has two",
            hint="join two inputs at a time",
        )


def _check_keys(schemas: Sequence[pa.Schema], keys: Names) -> None:
    """Raise QueryError unless all inputs have the same number of key columns, at least one, with equal types."""
    fields = [[require_column(s, k, "the keys of a join") for k in ks] for s, ks in zip(schemas, keys, strict=True)]
    if not all(fields) or len({len(group) for group in fields}) > 1:
        raise QueryError(
            "all inputs of a join need the same number of key columns, at least one",
            detail="they have " + ", ".join(str(len(group)) for group in fields),
            hint="join on an equality between the inputs",
        )
    for group in zip(*fields, strict=True):
        check_key_type(group[0].type, group[0].name)
        if differs := next((f for f in group if f.type != group[0].type), None):
            raise QueryError(
                f"`{group[0].name}` and `{differs.name}` have different types and cannot be joined",
                detail=f"they are {sql_type(group[0].type)} and {sql_type(differs.type)}",
                hint="cast one of them to the type of the other",
            )


def _check_payload(schemas: Sequence[pa.Schema], payload: Names) -> None:
    """Raise QueryError if a result column is missing from its input or occurs twice."""
    for schema, names in zip(schemas, payload, strict=True):
        for name in names:
            require_column(schema, name, "the result of a join")
    given = [name for names in payload for name in names]
    if twice := next((name for name in given if given.count(name) > 1), None):
        raise QueryError(f"two columns of the result are called `{twice}`", hint="give one of them another name")


COMBINATIONS = 100_000_000  # of one key in one portion: from here on it is reported
_LOOKED_AT = 8  # number of largest keys to examine
_KEY_LENGTH = 80


@dataclass(frozen=True)
class _KeyRows:
    """Sorted rows of one input: the fresh table, and the stored tables."""

    fresh: pa.Table
    stored: tuple[pa.Table, ...]

    @property
    def total(self) -> int:
        """Return the number of rows, fresh and stored."""
        return sum(int(table.num_rows) for table in (self.fresh, *self.stored))

    def counts(self, hashes: Words) -> Indices:
        """Return the number of rows of each hash."""
        return sum((_counts(table, hashes) for table in (self.fresh, *self.stored)), np.zeros(len(hashes), np.int64))

    def times(self, hash_: int, fresh: bool) -> Times:
        """Return the sorted times of a hash's stored rows and, with `fresh`, of its fresh rows."""
        tables = (*self.stored, self.fresh) if fresh else self.stored
        parts = [times_of(table[point(hash_).rows(hashes_of(table))]) for table in tables]
        return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))


def explosion(
    portion: Portion, keys: Sequence[Sequence[str]], leads: Leads, known: Collection[int]
) -> Explosion | None:
    """Return the key with the most combinations if there are at least COMBINATIONS of them and its hash is not in
    `known`."""
    inputs = [
        _KeyRows(fresh, tuple(part.rows for part in stored))
        for fresh, stored in zip(portion.fresh, portion.stored, strict=True)
    ]
    if math.prod(part.total for part in inputs) < COMBINATIONS:
        return None
    hashes = np.unique(np.concatenate([_of_large_groups(inputs, port) for port in range(len(inputs))]))
    counts = np.stack([part.counts(hashes) for part in inputs])
    most = np.prod(counts.astype(np.float64), axis=0)
    for place in np.argsort(-most)[:_LOOKED_AT].tolist():
        hash_, key = int(hashes[place]), _key(inputs, keys, int(hashes[place]))
        if most[place] < COMBINATIONS:
            return None
        if hash_ not in known and key is not None and (found := _combinations(inputs, leads, hash_)) >= COMBINATIONS:
            return Explosion(hash_, key, tuple(counts[:, place].tolist()), found)
    return None


def _of_large_groups(inputs: Sequence[_KeyRows], port: int) -> Words:
    """Return the hashes of a port that have enough fresh rows to reach COMBINATIONS, and possibly others. Rows are
    sorted by hash, so a group of at least n rows contains every n-th row of the table at least once."""
    others = math.prod(part.total for n, part in enumerate(inputs) if n != port)
    enough = max(1, COMBINATIONS // max(1, others))
    return hashes_of(inputs[port].fresh)[enough - 1 :: enough]


def _counts(table: pa.Table, hashes: Words) -> Indices:
    """Return the number of rows of each hash in a sorted table."""
    own = hashes_of(table)
    return np.searchsorted(own, hashes, "right") - np.searchsorted(own, hashes, "left")


def _combinations(inputs: Sequence[_KeyRows], leads: Leads, hash_: int) -> int:
    """Return the number of combinations of a hash, counting partners within the bands of the fresh row they start
    from."""
    total = 0.0
    for port, own in enumerate(inputs):
        probes = times_of(own.fresh[point(hash_).rows(hashes_of(own.fresh))])
        each = np.ones(len(probes))
        for other, part in enumerate(inputs):
            if other != port:
                partners = part.times(hash_, fresh=other < port)
                each *= band_ranges(probes, partners, leads[other][port], leads[port][other]).sizes
        total += float(each.sum())
    return int(total)


def _key(inputs: Sequence[_KeyRows], keys: Sequence[Sequence[str]], hash_: int) -> str | None:
    """Return the values of a key as text; None if one is null, because such a key joins nothing."""
    for part, names in zip(inputs, keys, strict=True):
        if (rows := part.fresh[point(hash_).rows(hashes_of(part.fresh))]).num_rows:
            values = [rows.column(name)[0].as_py() for name in names]
            return None if None in values else ", ".join(map(str, values))[:_KEY_LENGTH]
    return None
