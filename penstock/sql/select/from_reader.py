"""Read FROM and its joins into a tree.

A comma binds less tightly than JOIN. A column keeps its name in the rows of the query, unless an earlier stream has a
column of that name: then it is prefixed with its stream, as in `b_ts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain, count

from sqlglot import exp

from penstock.errors import QueryError
from penstock.expr.tree import Call, Expr
from penstock.expr.walk import conjuncts_of
from penstock.plan.schema import columns_of_node
from penstock.sql.joins.tree import From, Joined, Leaf, leaves_of
from penstock.sql.names.expression import translate
from penstock.sql.names.scope import NamedRelation, Scope
from penstock.sql.parse.place import ScriptText
from penstock.sql.parse.tree import extra_parts, place_of, placing
from penstock.sql.select.windowed import join_input, last_rows, window_conjuncts
from penstock.sql.streams.stream import ITEMS, Context, FromStream, stream_of
from penstock.sql.streams.window_call import window_call

_MAX_STREAMS = 40
_KINDS = {
    ("", ""): "inner", ("", "INNER"): "inner", ("", "CROSS"): "inner", ("LEFT", ""): "left", ("RIGHT", ""): "right",
    ("FULL", ""): "full", ("LEFT", "OUTER"): "left", ("RIGHT", "OUTER"): "right", ("FULL", "OUTER"): "full",
    ("", "SEMI"): "semi", ("LEFT", "SEMI"): "semi", ("", "ANTI"): "anti", ("LEFT", "ANTI"): "anti",
}  # fmt: skip
_KNOWN = "there are inner, LEFT, RIGHT, FULL, SEMI and ANTI joins, with ON or USING"


def read_from(select: exp.Select, context: Context) -> From:
    """Read the FROM clause of a SELECT."""
    clause = select.args.get("from_")
    if clause is None:
        raise context.text.error("the query has no FROM", place_of(select), hint="name the source it reads")
    joins = select.args.get("joins") or ()
    read = _FromReader(context, bool(joins) or _is_group(clause.this)).chain(clause.this, joins)
    if sum(1 for _ in leaves_of(read.tree)) > _MAX_STREAMS:
        what = f"a query joins at most {_MAX_STREAMS} streams"
        raise context.text.error(what, place_of(clause), hint="join some of them in a view")
    return read


def _is_group(table: exp.Expr) -> bool:
    """Return whether the item of FROM contains joins."""
    inner = table.this if isinstance(table, exp.Subquery) else None
    return bool(table.args.get("joins")) or (isinstance(inner, exp.Table | exp.Subquery) and _is_group(inner))


@dataclass
class _FromReader:
    """Reads FROM from left to right. `joining`: there is more than one stream. `taken` has the column names used so
    far, in lower case."""

    context: Context
    joining: bool
    taken: set[str] = field(default_factory=set)

    def chain(self, table: exp.Expr, joins: Sequence[exp.Join]) -> From:
        """Read a table and its joins. A comma starts a new chain; the chains are joined last."""
        chains = [self._item(table)]
        for join in (*(table.args.get("joins") or ()), *joins):
            item = self._item(join.this)
            chains = [*chains, item] if _is_comma(join) else self._extended(chains, item, join)
        return reduce(self._product, chains)

    def _extended(self, chains: list[From], item: From, join: exp.Join) -> list[From]:
        """Join the item to the last chain, or to the product of all chains if ON reads earlier ones.

        Both give the same rows, unless the join keeps all rows of the item (RIGHT, FULL).
        """
        try:
            return [*chains[:-1], self._joined(chains[-1], item, join)]
        except QueryError:
            if len(chains) == 1 or join.text("side").upper() in ("RIGHT", "FULL"):
                raise
            return [self._joined(reduce(self._product, chains), item, join)]

    def _item(self, table: exp.Expr) -> From:
        """Read one item of FROM with its alias, or a chain of joins in parentheses."""
        if any(extra_parts(table, ("this", "alias", "joins"))):
            raise self.context.text.error(ITEMS, place_of(table), hint="only an alias can follow it")
        in_parentheses = isinstance(table, exp.Subquery) and isinstance(table.this, exp.Table)
        if in_parentheses and not table.alias:
            return self.chain(table.this, ())
        with placing(table, self.context.text):
            stream = stream_of(table.this if in_parentheses else table, self.context, window_call)
            stream = replace(stream, name=_alias(table, self.context.text) or stream.name)
            return self._leaf(join_input(stream) if self.joining else stream, place_of(table))

    def _leaf(self, stream: FromStream, offset: int) -> From:
        """Return a stream with its columns named for the rows of the query."""
        own = columns_of_node(stream.node)
        names = tuple(self._name(name, stream.name) for name in own)
        part = NamedRelation(stream.name, dict(zip(own, names, strict=True)))
        return From(Leaf(stream, names, offset), Scope(self.context.text, (part,)))

    def _name(self, own: str, stream: str) -> str:
        """Return the name of a column in the rows, which differs from all others even without regard to case."""
        if not self.joining:
            return own
        longer = f"{stream or 'other'}_{own}"
        options = chain((own, longer), (f"{longer}_{number}" for number in count(2)))
        name = next(option for option in options if option.lower() not in self.taken)
        self.taken.add(name.lower())
        return name

    def _joined(self, left: From, right: From, join: exp.Join) -> From:
        """Join two parts of FROM by a JOIN clause."""
        with placing(join.this, self.context.text):
            kind = _kind_of(join)
            both = _both_scopes(left.scope, right.scope, place_of(join.this))
            shared = _shared_columns(join.args.get("using") or (), left.scope, right.scope)
            on = conjuncts_of(translate(join.args["on"], both)) if join.args.get("on") else ()
            equal = tuple(column.equality for column in shared)
            scope = _visible_scope(kind, left.scope, both, shared)
            return From(_tree(kind, (left, right), (*equal, *on), place_of(join.this)), scope)

    def _product(self, left: From, right: From) -> From:
        """Join two parts of FROM that a comma separates."""
        offset = next(leaves_of(right.tree)).offset
        with self.context.text.placing(lambda: offset):
            return From(_tree("inner", (left, right), (), offset), _both_scopes(left.scope, right.scope, offset))


def _tree(kind: str, sides: tuple[From, From], on: tuple[Expr, ...], offset: int) -> Joined:
    left, right = (side.tree for side in sides)
    conjuncts = (*window_conjuncts(left, right), *on)
    return Joined(kind, left, right, conjuncts, offset, last_rows(kind, left, right))


def _alias(table: exp.Expr, text: ScriptText) -> str:
    alias = table.args.get("alias")
    if isinstance(alias, exp.TableAlias) and any(extra_parts(alias, ("this",))):
        raise text.error("an alias in FROM cannot name columns", place_of(alias), hint="name columns in the SELECT")
    return str(table.alias)


def _kind_of(join: exp.Join) -> str:
    """Return the plan's kind of the join."""
    written = join.text("side").upper(), join.text("kind").upper()
    if (method := join.text("method")) or written not in _KINDS:
        name = " ".join(filter(None, (method.upper(), *written)))
        raise QueryError(f"{name} joins are not supported", hint=_KNOWN)
    if any(extra_parts(join, ("this", "side", "kind", "method", "on", "using"))):
        raise QueryError("this kind of join is not supported", hint=_KNOWN)
    kind = _KINDS[written]
    if kind != "inner" and not (join.args.get("on") or join.args.get("using")):
        raise QueryError(f"a {kind} join needs ON or USING", hint="as in LEFT JOIN b ON a.k = b.k AND ...")
    return kind


def _is_comma(join: exp.Join) -> bool:
    """Return whether the item follows a comma, or a JOIN without kind and condition, which means the same."""
    return not any(extra_parts(join, ("this",)))


@dataclass(frozen=True)
class _Shared:
    """A column of USING: its name and its value on each side."""

    name: str
    left: Expr
    right: Expr

    @property
    def equality(self) -> Expr:
        return Call("=", (self.left, self.right))

    def value(self, kind: str) -> Expr:
        """Return the value after the join, from the side that is never null-padded; of a full join the first that is
        not null."""
        match kind:
            case "right":
                return self.right
            case "full":
                return Call("coalesce", (self.left, self.right))
        return self.left


def _shared_columns(using: Sequence[exp.Expr], left: Scope, right: Scope) -> list[_Shared]:
    """Return the columns of USING."""
    return [
        _Shared(name.name, left.column([name.name], place_of(name)), right.column([name.name], place_of(name)))
        for name in using
    ]


def _both_scopes(left: Scope, right: Scope, offset: int) -> Scope:
    """Return the scope of both sides; two streams of one name are refused."""
    names = {part.name.lower() for part in left.parts if part.name}
    twice = next((part.name for part in right.parts if part.name.lower() in names), None)
    if twice is not None:
        raise left.text.error(f"two streams are called `{twice}`", offset, hint="give one of them an alias")
    return replace(left, parts=left.parts + right.parts, merged={**left.merged, **right.merged})


def _visible_scope(kind: str, left: Scope, both: Scope, shared: Sequence[_Shared]) -> Scope:
    """Return the scope after a join; of a semi or anti join it is the left side's."""
    if kind in ("semi", "anti"):
        return left
    return replace(both, merged={**both.merged, **{column.name: column.value(kind) for column in shared}})
