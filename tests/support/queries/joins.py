"""Random operators with several inputs: unions and joins of all kinds."""

from __future__ import annotations

import pyarrow as pa

import penstock as ps
from penstock.api.columns import ColumnExpr
from penstock.api.nodes import Within, numbered_names, prefixed_names
from penstock.plan.logical import JOINS
from penstock.plan.schema import WINDOW_START
from tests.support.queries.data import MICROSECOND
from tests.support.queries.draft import Draft, Drawing

_INNER_MORE_OFTEN = ("inner", "inner", "inner", *JOINS)


def union(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a union with a stream of the same types; mostly matching columns are selected first."""
    other = drawing.other()
    if other.schema.types == draft.schema.types and drawing.random.random() < 0.7:
        both = {new for new, old in zip(draft.schema.names, other.schema.names, strict=True) if old in other.rounded}
        return Draft(draft.stream.union(other.stream), draft.rounded | both, draft.unit)
    pairs = _columns_alike(draft, other)
    if not pairs:
        return None
    stream = draft.stream.select(*(left for left, _ in pairs)).union(other.stream.select(*(r for _, r in pairs)))
    rounded = {left for left, right in pairs if left in draft.rounded or right in other.rounded}
    return Draft(stream, frozenset(rounded), draft.unit)


def _columns_alike(left: Draft, right: Draft) -> list[tuple[str, str]]:
    """Pair columns of equal types, each used once, times with times."""
    free, found = list(right.schema.names), []
    for field in left.schema:
        same = [n for n in free if right.schema.field(n).type == field.type]
        same = [n for n in same if (n in right.times) == (field.name in left.times)]
        if same:
            found.append((field.name, same[0]))
            free.remove(same[0])
    return found


def join(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a join of two inputs."""
    random, other = drawing.random, _partner(drawing, draft)
    on = _key(drawing, draft, other)
    if not (on and _of_one_time(draft, other)):
        return None
    names = prefixed_names(draft.node, other.node, "right_")
    kind = random.choice(_INNER_MORE_OFTEN)
    where = _condition(drawing, draft, other, names[1]) if random.random() < 0.3 else None
    if random.random() < 0.3 and WINDOW_START in draft.times and WINDOW_START in other.times:
        stream = draft.stream.join(other.stream, on, within="window", kind=kind, where=where)
    else:
        times = (random.choice(draft.times), random.choice(other.times))
        within = _within(drawing, draft.unit)
        stream = draft.stream.join(other.stream, on, within=within, kind=kind, where=where, times=times)
    return _joined(stream, [draft, other], names, kind)


def join_all(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a join of three inputs, sometimes the same one three times."""
    drafts = [draft, _partner(drawing, draft), _partner(drawing, draft)]
    shared = [n for n in draft.exact if all(n in d.exact and n not in d.times for d in drafts)]
    if not (shared and _of_one_time(*drafts)):
        return None
    key = drawing.random.choice(shared)
    if len({d.schema.field(key).type for d in drafts}) > 1:
        return None
    stream = ps.join_all([d.stream for d in drafts], key, within=_within(drawing, draft.unit))
    return _joined(stream, drafts, numbered_names([d.node for d in drafts]), "inner")


def theta_join(drawing: Drawing, draft: Draft) -> Draft | None:
    """Draw a theta join, over a band of time or over the last rows."""
    random, other = drawing.random, _partner(drawing, draft)
    if not _of_one_time(draft, other):
        return None
    names = prefixed_names(draft.node, other.node, "right_")
    condition = _condition(drawing, draft, other, names[1])
    if draft.rows_of_source and other.rows_of_source and random.random() < 0.4:
        last = random.choice([(1, 1), (3, 3), (2, 5), (20, 1)])
        stream = draft.stream.theta_join(other.stream, condition, last_rows=last)
    else:
        within = _within(drawing, draft.unit) or draft.unit * MICROSECOND
        stream = draft.stream.theta_join(other.stream, condition, within=within)
    return _joined(stream, [draft, other], names, "inner")


def _partner(drawing: Drawing, draft: Draft) -> Draft:
    """Draw another input; sometimes the same one."""
    return draft if drawing.random.random() < 0.2 else drawing.other()


def _of_one_time(*drafts: Draft) -> bool:
    """Return whether all drafts have times of the same type."""
    return all(d.times for d in drafts) and len({d.schema.field(d.times[0]).type for d in drafts}) == 1


def _within(drawing: Drawing, small: int) -> Within:
    """Draw a band: narrow ones, some only before or only after, one that no times fit; rarely None."""
    unit = small * MICROSECOND
    narrow: list[Within] = [0, MICROSECOND, unit, 5 * unit, (0, 2 * unit), (unit, 0), (5 * unit, 0)]
    narrow += [(-unit, 4 * unit), (2 * unit, -unit), (-unit, 0)]
    return None if drawing.random.random() < 0.07 else drawing.random.choice(narrow)


def _key(drawing: Drawing, left: Draft, right: Draft) -> list[object]:
    """Draw pairs of columns whose types have a common one; often `k`, whose values repeat in many rows."""
    pairs = [(a, b) for a in left.exact for b in right.exact if _comparable(left, a, right, b)]
    same = [(a, b) for a, b in pairs if a == b]
    found: list[object] = [("k", "k")] if ("k", "k") in pairs and drawing.random.random() < 0.6 else []
    for _ in range(drawing.random.choice([0, 0, 1] if found else [1, 1, 2])):
        found += drawing.random.sample(same if same and drawing.random.random() < 0.7 else pairs, 1) if pairs else []
    return found


def _comparable(left: Draft, a: str, right: Draft, b: str) -> bool:
    if a in left.times or b in right.times:
        return False
    types = [left.schema.field(a).type, right.schema.field(b).type]
    return types[0] == types[1] or all(pa.types.is_integer(t) or pa.types.is_floating(t) for t in types)


def _condition(drawing: Drawing, left: Draft, right: Draft, names: tuple[str, ...]) -> ColumnExpr:
    """Draw a condition over the columns of both inputs, by their names in the result."""
    random, called = drawing.random, dict(zip(right.schema.names, names, strict=True))
    pairs = [(a, b) for a in left.integers for b in right.integers]
    if not pairs:
        return ps.col(names[0]).is_not_null()
    a, b = random.choice(pairs)
    x, y = ps.col(a), ps.col(called[b])
    return random.choice([x < y, x >= y, x != y, x % 3 + y % 4 > 3, (x > y) | y.is_null()])


def _joined(stream: ps.Stream, drafts: list[Draft], names: tuple[tuple[str, ...], ...], kind: str) -> Draft:
    """Return the draft of a join; rounded columns stay rounded."""
    shown = drafts[:1] if kind in ("semi", "anti") else drafts
    rounded = {
        new
        for draft, called in zip(shown, names, strict=False)
        for new, old in zip(called, draft.schema.names, strict=True)
        if old in draft.rounded
    }
    return Draft(stream, frozenset(rounded), drafts[0].unit)
