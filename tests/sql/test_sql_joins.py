"""Joins: kinds, keys, names, where conditions go, and how many inputs are in one Join."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sql_case import MINUTE, pointed_at
from stream_case import A_NAMES, B_NAMES, A, B, C, K, columns, equi_join, joined, planned, refused

from penstock.expr.tree import Call, Cast, Column, Literal, Named
from penstock.operators.bands import Band
from penstock.operators.window.windows import Window
from penstock.plan.logical import Aggregate, AssignWindows, Filter, Join, Project

SAME = Band(0, 1, 0, 0)
ON = "a.k = b.k AND a.ts = b.ts"


@pytest.mark.parametrize(
    ("join", "kind"),
    [
        ("JOIN", "inner"), ("INNER JOIN", "inner"), ("LEFT JOIN", "left"), ("LEFT OUTER JOIN", "left"),
        ("RIGHT JOIN", "right"), ("FULL JOIN", "full"), ("FULL OUTER JOIN", "full"), ("SEMI JOIN", "semi"),
        ("LEFT SEMI JOIN", "semi"), ("ANTI JOIN", "anti"), ("LEFT ANTI JOIN", "anti"),
    ],
)  # fmt: skip
def test_kinds(join: str, kind: str) -> None:
    assert planned(f"SELECT * FROM a {join} b ON {ON}") == equi_join(SAME, kind)


def test_columns_of_the_second_input_are_called_by_its_alias_where_names_clash() -> None:
    node = joined(f"SELECT * FROM a JOIN b AS Other ON {ON.replace('b.', 'other.')}")
    assert node.names == (A_NAMES, ("Other_k", "w", "j", "Other_ts"))


def test_names_that_a_longer_name_takes_get_a_number() -> None:
    x = "(SELECT k, v AS b_k, ts FROM a) x"
    assert joined(f"SELECT * FROM {x} JOIN b ON x.k = b.k AND x.ts = b.ts").names[1] == ("b_k_2", "w", "j", "b_ts")


def test_a_selected_column_goes_by_its_own_name_if_it_can() -> None:
    assert planned(f"SELECT b.k, b.ts, w FROM a JOIN b ON {ON}") == Project(
        equi_join(SAME), (Named("k", Column("b_k")), Named("ts", Column("b_ts")), Named("w", Column("w")))
    )
    node = planned(f"SELECT b.k, a.k, b.ts AS ts, a.ts FROM a JOIN b ON {ON}")
    assert [c.name for c in node.columns] == ["k", "a_k", "ts", "a_ts"]


def test_stars() -> None:
    assert planned(f"SELECT b.*, v FROM a JOIN b ON {ON}").columns == columns(*B_NAMES, "v")
    assert planned(f"SELECT a.* FROM a SEMI JOIN b ON {ON}") == equi_join(SAME, "semi")


def test_keys_of_different_types_are_cast_to_one() -> None:
    node = joined("SELECT * FROM b JOIN c ON b.k = c.k AND b.w + 1 = c.j AND b.ts = c.ts")
    assert node.keys == (
        (Column("k"), Call("+", (Column("w"), Literal(1)))),
        (Cast(Column("k"), "BIGINT"), Cast(Column("j"), "DOUBLE")),
    )
    assert node.condition is None


def test_two_expressions_of_one_input_that_equal_the_same_are_both_checked() -> None:
    """Large integers can be equal to one double and not to each other."""
    node = joined("SELECT * FROM b JOIN c ON b.w = c.j AND b.k = c.j AND b.ts = c.ts")
    assert node.keys == ((Column("w"),), (Cast(Column("j"), "DOUBLE"),))
    equal = Call("=", (Column("w"), Column("c_j"))), Call("=", (Column("k"), Column("c_j")))
    assert node.condition == Call("and", equal)


def test_conditions_of_an_inner_join_go_where_they_are_read() -> None:
    on = "a.v > 1 AND a.v < b.w AND b.w > 2"
    node = joined(f"SELECT * FROM a JOIN b ON {on} WHERE a.k = b.k AND a.ts = b.ts AND s = 'x'")
    above = Call("and", (Call(">", (Column("v"), Literal(1))), Call("=", (Column("s"), Literal("x")))))
    assert node.inputs == (Filter(A, above), Filter(B, Call(">", (Column("w"), Literal(2)))))
    assert node.condition == Call("<", (Column("v"), Column("w")))


@pytest.mark.parametrize(
    ("join", "left", "right", "condition"),
    [
        ("LEFT", False, True, "v"), ("RIGHT", True, False, "w"), ("SEMI", True, True, None), ("ANTI", False, True, "v"),
        ("FULL", False, False, "vw"),
    ],
)  # fmt: skip
def test_conditions_in_on_of_one_side_are_filters_only_where_that_keeps_the_meaning(
    join: str, left: bool, right: bool, condition: str | None
) -> None:
    node = joined(f"SELECT * FROM a {join} JOIN b ON {ON} AND v > 1 AND w > 2")
    v, w = Call(">", (Column("v"), Literal(1))), Call(">", (Column("w"), Literal(2)))
    assert node.inputs == (Filter(A, v) if left else A, Filter(B, w) if right else B)
    assert node.condition == {"v": v, "w": w, "vw": Call("and", (v, w)), None: None}[condition]


@pytest.mark.parametrize(("join", "below"), [("LEFT", "v"), ("RIGHT", "w"), ("FULL", ""), ("SEMI", "v"), ("ANTI", "v")])
def test_conditions_in_where_stay_above_an_outer_join_unless_they_are_about_rows_that_it_keeps(
    join: str, below: str
) -> None:
    where = "v > 1" if join in ("SEMI", "ANTI") else "v > 1 AND w > 2"
    node = planned(f"SELECT * FROM a {join} JOIN b ON {ON} WHERE {where}")
    predicates = {"v": Call(">", (Column("v"), Literal(1))), "w": Call(">", (Column("w"), Literal(2)))}
    above = [predicates[name] for name in where if name in predicates and name not in below]
    if above:
        assert isinstance(node, Filter)
        assert node.predicate == (above[0] if len(above) == 1 else Call("and", tuple(above)))
        node = node.input
    assert isinstance(node, Join)
    assert node.condition is None
    left = Filter(A, predicates["v"]) if "v" in below else A
    assert node.inputs == (left, Filter(B, predicates["w"]) if "w" in below else B)


def test_using_gives_its_columns_once() -> None:
    node = planned("SELECT * FROM a JOIN b USING (k) WHERE a.ts = b.ts")
    assert node == Project(equi_join(SAME), columns("k", "v", "s", "ts", "w", "j", "b_ts"))
    assert planned("SELECT k FROM a JOIN b USING (k, ts)") == Project(equi_join(SAME), columns("k"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [("LEFT", Column("k")), ("RIGHT", Column("b_k")), ("FULL", Call("coalesce", (Column("k"), Column("b_k"))))],
)
def test_a_column_of_using_is_that_of_the_side_that_is_there(kind: str, value: object) -> None:
    node = planned(f"SELECT k, a.k AS mine, b.k AS theirs FROM a {kind} JOIN b USING (k, ts)")
    assert [c.expression for c in node.columns] == [value, Column("k"), Column("b_k")]
    assert node.columns[0].name == "k"


def test_a_stream_joined_with_itself() -> None:
    node = joined("SELECT * FROM a x JOIN a y ON x.k = y.k AND y.ts BETWEEN x.ts AND x.ts + INTERVAL 1 MINUTE")
    assert node == Join(
        (A, A), "inner", K, ("ts", "ts"), (Band(0, 1, 0, MINUTE),), None, (A_NAMES, ("y_k", "y_v", "y_s", "y_ts"))
    )


def test_equal_times_are_a_key_where_there_is_no_other() -> None:
    node = joined("SELECT * FROM a LEFT JOIN b ON a.ts = b.ts AND a.v > b.w")
    assert node.keys == ((Column("ts"),), (Column("ts"),))
    assert node.bands == (SAME,)


def test_without_keys_it_is_a_theta_join() -> None:
    node = joined("SELECT * FROM a, b WHERE a.v < b.w AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 MINUTE")
    assert node.keys == ((), ())
    assert node.condition == Call("<", (Column("v"), Column("w")))


def test_the_last_rows_of_two_streams() -> None:
    assert planned("SELECT * FROM a [ROWS 10], b [ROWS 20] WHERE a.v < b.w AND v > 1") == Join(
        (A, B),
        "inner",
        ((), ()),
        ("ts", "ts"),
        (),
        Call("and", (Call("<", (Column("v"), Column("w"))), Call(">", (Column("v"), Literal(1))))),
        (A_NAMES, B_NAMES),
        (10, 20),
    )


@pytest.mark.parametrize(
    "query",
    [
        "a JOIN b USING (k) JOIN c ON b.k = c.k WHERE a.ts = b.ts AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 1 MINUTE",
        "a, b, c WHERE a.k = b.k AND c.k = a.k AND a.ts = b.ts AND c.ts >= b.ts AND c.ts - INTERVAL 1 MINUTE <= b.ts",
        "a, b JOIN c ON b.k = c.k AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 1 MINUTE WHERE a.k = c.k AND a.ts = b.ts",
        "(a JOIN b ON a.ts = b.ts AND a.k = b.k), c WHERE b.k = c.k AND c.ts BETWEEN b.ts AND b.ts + INTERVAL 1 MINUTE",
    ],
)
def test_inputs_with_one_key_are_in_one_join(query: str) -> None:
    node = joined(f"SELECT * FROM {query}")
    assert node.inputs == (A, B, C)
    assert node.keys == ((Column("k"),), (Column("k"),), (Cast(Column("k"), "BIGINT"),))
    assert node.bands == (SAME, Band(1, 2, 0, MINUTE))
    assert node.names[2] == ("c_k", "c_j", "c_ts")


def test_inputs_with_different_keys_are_joined_one_after_another() -> None:
    node = joined(f"SELECT * FROM a JOIN b ON {ON} JOIN c ON c.j = b.j AND c.ts = b.ts AND v > c.k")
    inner = equi_join(SAME)
    assert node.inputs == (inner, C)
    assert node.keys == ((Cast(Column("j"), "BIGINT"),), (Column("j"),))
    assert node.times == ("b_ts", "ts")
    assert node.condition == Call(">", (Column("v"), Column("c_k")))
    assert node.names == ((*A_NAMES, *B_NAMES), ("c_k", "c_j", "c_ts"))


def test_inputs_are_joined_with_what_they_are_connected_to() -> None:
    node = planned("SELECT * FROM a, c, b WHERE a.k = b.k AND a.ts = b.ts AND b.j = c.j AND c.ts = b.ts")
    assert isinstance(node, Project)
    assert isinstance(node.input, Join)
    assert [isinstance(part, Join) for part in node.input.inputs] == [True, False]
    assert node.input.inputs[1] == C
    assert [c.name for c in node.columns] == [*A_NAMES, "c_k", "j", "c_ts", "b_k", "w", "b_j", "b_ts"]


def test_bounds_by_way_of_another_input_hold_too() -> None:
    """The times of `b` and `c` are bounded by that of `a`, which is joined last."""
    node = planned("SELECT c.k FROM c, b, a WHERE b.j = c.j AND a.k = b.k AND a.ts = b.ts AND c.ts = a.ts").input
    first, last = node.inputs
    assert (first.inputs, first.bands) == ((C, B), (SAME,))
    assert (last, node.bands) == (A, (SAME,))


def test_a_join_goes_by_the_times_that_are_bounded_most_narrowly() -> None:
    near = "b.ts BETWEEN a.ts - INTERVAL 1 MINUTE AND a.ts AND c.ts = b.ts AND c.ts <= a.ts + INTERVAL 1 DAY"
    node = joined(f"SELECT * FROM a, b, c WHERE a.k = b.k AND b.j = c.j AND {near}")
    assert node.times == ("b_ts", "ts")
    assert node.bands == (SAME,)
    assert node.condition == Call("<=", (Column("c_ts"), Call("+", (Column("ts"), Literal(timedelta(days=1))))))


def test_many_streams() -> None:
    def query(count: int) -> str:
        names = [f"x{i}" for i in range(count)]
        where = " AND ".join(f"x0.k = {name}.k AND x0.ts = {name}.ts" for name in names[1:])
        return f"SELECT x0.k FROM {', '.join(f'a {name}' for name in names)} WHERE {where}"

    assert len(planned(query(40)).input.inputs) == 40
    assert refused(query(41)).what == "a query joins at most 40 streams"


def test_on_may_read_streams_before_a_comma() -> None:
    where = "WHERE a.k = b.k AND a.ts = b.ts"
    node = joined(f"SELECT * FROM a, b LEFT JOIN c ON a.k = c.k AND b.ts = c.ts {where}")
    assert node.inputs == (equi_join(SAME), C)
    assert refused(f"SELECT * FROM a, b RIGHT JOIN c ON a.k = c.k AND b.ts = c.ts {where}").what == "unknown stream `a`"


def test_an_outer_join_of_inner_joins() -> None:
    node = joined("SELECT * FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.j = b.j AND c.ts = a.ts WHERE a.ts = b.ts")
    assert node.kind == "left"
    assert node.inputs == (equi_join(SAME), C)


def test_windows_are_joined_by_their_borders() -> None:
    tumble = Window("ts", MINUTE, MINUTE)
    query = "SELECT * FROM TUMBLE(a, ts, INTERVAL 1 MINUTE) x JOIN TUMBLE(b, ts, INTERVAL 1 MINUTE) y ON x.k = y.k AND "
    node = joined(query + "x.window_end = y.window_end AND x.window_start = y.window_start")
    assert node.inputs == (AssignWindows(A, tumble), AssignWindows(B, tumble))
    assert node.times == ("window_start", "window_start")
    assert node.bands == (SAME,)
    assert node.condition is None
    assert joined(query + "x.window_end = y.window_end").times == ("window_end", "window_end")


def test_other_times_of_windows_that_are_joined_are_checked() -> None:
    query = "SELECT * FROM TUMBLE(a, ts, INTERVAL 1 MINUTE) x JOIN TUMBLE(b, ts, INTERVAL 1 MINUTE) y ON x.k = y.k AND "
    node = joined(query + "x.window_start = y.window_start AND x.ts = y.ts")
    assert node.times == ("window_start", "window_start")
    assert node.condition == Call("=", (Column("ts"), Column("y_ts")))
    crossed = joined(query + "x.window_start = y.window_end AND x.window_end = y.window_start")
    assert crossed.condition is not None


def test_borders_of_windows_of_different_sizes_are_both_checked() -> None:
    query = "SELECT * FROM TUMBLE(a, ts, INTERVAL 1 MINUTE) x JOIN TUMBLE(b, ts, INTERVAL 2 MINUTE) y ON x.k = y.k AND "
    node = joined(query + "x.window_start = y.window_start AND x.window_end = y.window_end")
    assert node.condition == Call("=", (Column("window_end"), Column("y_window_end")))


def test_aggregates_can_be_joined() -> None:
    side = "(SELECT k, window_start AS since, count(*) AS n FROM {} [RANGE 1 MINUTE] GROUP BY k)"
    sides = f"{side.format('a')} x JOIN {side.format('b')} y"
    node = joined(f"SELECT x.n, y.n FROM {sides} ON x.k = y.k AND x.since = y.since")
    assert node.times == ("since", "since")
    assert all(isinstance(part, Project) and isinstance(part.input, Aggregate) for part in node.inputs)


@pytest.mark.parametrize(
    ("query", "what", "hint", "place"),
    [
        (
            f"SELECT k FROM a JOIN b ON {ON}",
            "column `k` is ambiguous: several streams have it",
            "write `a.k` or `b.k`",
            "k FROM",
        ),
        ("SELECT * FROM a JOIN a ON TRUE", "two streams are called `a`", "an alias", "a ON"),
        (f"SELECT x.k FROM a JOIN b ON {ON}", "unknown stream `x`", "`a`", "x.k"),
        (f"SELECT b.w FROM a SEMI JOIN b ON {ON}", "unknown stream `b`", "", "b.w"),
        (
            "SELECT * FROM a JOIN b ON a.s = b.k AND a.ts = b.ts",
            "the keys of a join have types that cannot be compared",
            "cast",
            "b ON",
        ),
        (
            "SELECT * FROM a LEFT JOIN b ON a.ts BETWEEN b.ts AND b.ts + INTERVAL 1 DAY",
            "a left join needs an equality",
            "ON",
            "b ON",
        ),
        ("SELECT * FROM a LEFT JOIN b", "a left join needs ON or USING", "ON", "b"),
        ("SELECT * FROM a NATURAL JOIN b", "NATURAL joins are not supported", "USING", "b"),
        ("SELECT * FROM a ASOF JOIN b USING (k)", "ASOF joins are not supported", "LEFT", "b USING"),
        ("SELECT * FROM a RIGHT SEMI JOIN b USING (k)", "RIGHT SEMI joins are not supported", "SEMI", "b USING"),
        ("SELECT * FROM a JOIN b USING (v)", "unknown column `v` in stream `b`", "known", "v)"),
        ("SELECT * FROM a JOIN c USING (k) JOIN b ON j = 1", "column `j` is ambiguous", "`c.j` or `b.j`", "j = 1"),
        ("SELECT * FROM a WHERE EXISTS (SELECT 1 FROM b)", "EXISTS is not supported", "SEMI", "1 FROM"),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b)", "IN takes a list of values", "SEMI", "k IN"),
        ("SELECT * FROM a [ROWS 5], b [ROWS 5], c [ROWS 5]", "a join over the last rows", "", "c"),
    ],
)
def test_join_errors(query: str, what: str, hint: str, place: str) -> None:
    raised = refused(query)
    assert raised.what.startswith(what)
    assert hint in raised.hint
    assert pointed_at(raised).startswith(place)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) [RANGE 1 MINUTE] FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts",
        "SELECT count(*) FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts GROUP BY a.ts",
        "SELECT count(*) FROM TUMBLE((SELECT a.ts FROM a FULL JOIN b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts), ts, "
        "INTERVAL '1' MINUTE) GROUP BY window_start",
    ],
)
def test_a_window_over_a_full_join_says_how_to_write_it(query: str) -> None:
    raised = refused(query)
    assert "after a FULL JOIN either time may be null" in raised.detail
    assert "use a LEFT JOIN and add, with UNION ALL" in raised.hint
