from __future__ import annotations

import subprocess
import sys
import threading
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import EvaluationError, PenstockError, QueryError
from penstock.expr.evaluate import connection as duck
from penstock.expr.evaluate.scalar import check_predicate, evaluate, keep, result_schema
from penstock.expr.tree import Call, Case, Cast, Column, Expr, Literal, Named

CALLS = pa.table(
    {
        "caller": pa.array([1, 2, None, -7], pa.int64()),
        "name": ["a", "b", None, "d"],
        "ts": pa.array([1, 2, None, 4], pa.timestamp("us")),
        "ok": [True, False, None, True],
        "ratio": pa.array([0.5, None, 2.0, -1.0]),
    }
)
ODD_NAMES = ["A", "a", "a.b", 'q"q', "select", "two words", "c1", "c0", "é", "*", ""]


def call(function: str, *arguments: Any) -> Expr:
    return Call(
        function, tuple(a if isinstance(a, Column | Literal | Call | Cast | Case) else Literal(a) for a in arguments)
    )


def value_of(expression: Expr, table: pa.Table = CALLS) -> list[Any]:
    result = evaluate(table, [Named("value", expression)]).column(0).to_pylist()
    assert isinstance(result, list)
    return result


caller, name, ts, ok = Column("caller"), Column("name"), Column("ts"), Column("ok")


def test_expressions_are_computed_row_for_row_and_named() -> None:
    result = evaluate(CALLS, [Named("double", call("*", caller, 2)), Named("who", name), Named("one", Literal(1))])
    assert result.to_pydict() == {"double": [2, 4, None, -14], "who": ["a", "b", None, "d"], "one": [1, 1, 1, 1]}


def test_plain_columns_are_not_copied() -> None:
    result = evaluate(CALLS, [Named("x", name), Named("y", call("+", caller, 1))])
    theirs, ours = CALLS.column("name").chunk(0).buffers(), result.column("x").chunk(0).buffers()
    assert [b.address for b in ours if b] == [b.address for b in theirs if b]


def test_names_are_case_sensitive_and_any_name_works() -> None:
    table = pa.table({odd: [position, -position] for position, odd in enumerate(ODD_NAMES)})
    swapped = [Named(odd, call("+", Column(odd), 100)) for odd in reversed(ODD_NAMES)]
    expected = {odd: [100 + position, 100 - position] for position, odd in reversed(list(enumerate(ODD_NAMES)))}
    assert evaluate(table, swapped).to_pydict() == expected


def test_a_table_without_rows_has_the_same_schema() -> None:
    columns = [Named("x", call("/", caller, 2)), Named("when", ts), Named("c", Literal("k"))]
    empty = evaluate(CALLS.slice(0, 0), columns)
    assert empty.num_rows == 0
    assert empty.schema == evaluate(CALLS, columns).schema == result_schema(CALLS.schema, columns)


def test_no_columns_keep_the_number_of_rows() -> None:
    assert evaluate(CALLS, []).num_rows == 4
    assert evaluate(CALLS.select([]), [Named("x", Literal(5))]).column(0).to_pylist() == [5, 5, 5, 5]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 5_000), min_size=1, max_size=6), st.integers(2, 9))
def test_order_is_kept_across_chunks(sizes: list[int], divisor: int) -> None:
    chunks = [np.random.default_rng(size).integers(-(10**9), 10**9, size) for size in sizes]
    table = pa.table({"v": pa.chunked_array(chunks, pa.int64())})
    numbers = np.concatenate(chunks)
    assert np.array_equal(evaluate(table, [Named("x", call("+", Column("v"), 1))]).column(0).to_numpy(), numbers + 1)
    kept = keep(table, call("=", call("%", Column("v"), divisor), 0)).column(0).to_numpy()
    assert np.array_equal(kept, numbers[numbers % divisor == 0])


def test_keep_counts_null_as_false() -> None:
    assert keep(CALLS, call(">", caller, 0)).column("caller").to_pylist() == [1, 2]
    assert keep(CALLS, ok).column("name").to_pylist() == ["a", "d"]
    assert keep(CALLS, call("not", ok)).column("name").to_pylist() == ["b"]


def test_keep_returns_the_table_itself_when_all_rows_stay() -> None:
    assert keep(CALLS, call("=", 1, 1)) is CALLS
    assert keep(CALLS, call("=", 1, 2)).num_rows == 0
    assert keep(CALLS.slice(0, 0), ok).num_rows == 0


def test_the_left_part_of_a_condition_guards_the_right_one() -> None:
    divides = call(">", call("//", 10, call("-", caller, 1)), -100)
    guard = call("<>", caller, 1)
    assert keep(CALLS, call("and", guard, divides)).column("caller").to_pylist() == [2, -7]
    with pytest.raises(EvaluationError, match="`caller <> 2 AND 10 // \\(caller - 1\\) > -100` failed"):
        keep(CALLS, call("and", call("<>", caller, 2), divides))


def test_the_condition_of_a_guard_may_be_null_or_nested() -> None:
    nested = call("and", call("and", ok, call(">", caller, 0)), call("or", Literal(None), call("=", name, "a")))
    assert keep(CALLS, nested).column("name").to_pylist() == ["a"]


@pytest.mark.parametrize(
    ("expression", "type_", "expected"),
    [
        (call("length", name), pa.int64(), [1, 1, None, 1]),
        (Literal(None), pa.int32(), [None] * 4),
        (call("*", Cast(caller, "SMALLINT"), Literal(2**33)), pa.int64(), [2**33, 2**34, None, -7 * 2**33]),
        (call("/", caller, 2), pa.float64(), [0.5, 1.0, None, -3.5]),
        (call("//", caller, 2), pa.int64(), [0, 1, None, -3]),
        (call("%", caller, 2), pa.int64(), [1, 0, None, -1]),
        (call("+", ts, timedelta(days=1)), pa.timestamp("us"), None),
        (call("to_timestamp", caller), pa.timestamp("us"), None),
        (call("*", Cast(caller, "SMALLINT"), Decimal("1.50")), pa.decimal128(8, 2), None),
        (call("greatest", caller, Literal(2**63)), pa.int64(), "EvaluationError"),
        (call("||", name, "!"), pa.string(), ["a!", "b!", None, "d!"]),
        (call("coalesce", name, "?"), pa.string(), ["a", "b", "?", "d"]),
        (call("is_distinct_from", caller, Literal(None)), pa.bool_(), [True, True, False, True]),
        (call("is_not_distinct_from", caller, Literal(None)), pa.bool_(), [False, False, True, False]),
        (call("in", caller, 1, -7), pa.bool_(), [True, False, None, True]),
        (Case(((ok, caller),), Literal(1.5)), pa.float64(), [1.0, 1.5, 1.5, -7.0]),
        (Cast(name, "integer", True), pa.int32(), [None] * 4),
        (Cast(ts, "date"), pa.date32(), None),
        (Cast(name, "BLOB"), pa.binary(), [b"a", b"b", None, b"d"]),
    ],
)  # fmt: skip
def test_result_types_are_those_of_a_schema(expression: Expr, type_: pa.DataType, expected: Any) -> None:
    assert result_schema(CALLS.schema, [Named("value", expression)]).field("value").type == type_
    if expected == "EvaluationError":
        with pytest.raises(EvaluationError):
            value_of(expression)
        return
    assert evaluate(CALLS, [Named("value", expression)]).schema.field(0).type == type_
    assert expected is None or value_of(expression) == expected


def test_equal_python_values_are_not_taken_for_each_other() -> None:
    kinds = [result_schema(CALLS.schema, [Named("v", Literal(v))]).field(0).type for v in (1, True, 1.0, Decimal("1"))]
    assert kinds == [pa.int32(), pa.bool_(), pa.float64(), pa.decimal128(1, 0)]


def test_times_with_a_zone_are_read_as_utc() -> None:
    moment = datetime.fromisoformat("2026-07-01T12:00:00+02:00")
    assert value_of(Literal(moment))[0] == datetime(2026, 7, 1, 10)


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        (call("+", Column("calller"), 1), "unknown column `calller` in `calller + 1`", "did you mean `caller`?"),
        (Column("nam"), "unknown column `nam` in the query", "did you mean `name`?"),
        (call("length", call("+", caller, name)), "`caller + name`: BIGINT and VARCHAR cannot be added", "CAST"),
        (call("lower", caller), "`lower(caller)`: `lower` does not take (BIGINT)", "CAST"),
        (Cast(ts, "BIGINT"), "`CAST(ts AS BIGINT)`: TIMESTAMP cannot be cast to BIGINT", "epoch_us"),
        (Case(((ok, caller),), name), "types that do not fit together, BIGINT and VARCHAR", "CAST"),
        (call("=", caller, "x"), "`caller = 'x'` cannot be computed", ""),
        (call("-", ts, ts), "`ts - ts` is of type INTERVAL, which a column cannot have", "date_diff"),
        (call("lowr", name), "unknown function `lowr`", "did you mean `lower`?"),
        (call("now"), "`now` cannot be used in a continuous query", "event time"),
        (Cast(caller, "BIGINTT"), "unknown type `BIGINTT`", "did you mean `BIGINT`?"),
        (Literal("\ud800"), "cannot be used as a constant", ""),
        (Literal(2**200), "is too large", ""),
        (Literal(Decimal("NaN")), "is not a number", ""),
        (Literal(Decimal("1." + "1" * 40)), "more than 38 digits", ""),
    ],
)
def test_what_does_not_fit_is_said_before_the_query_runs(expression: Expr, message: str, hint: str) -> None:
    with pytest.raises(QueryError) as raised:
        result_schema(CALLS.schema, [Named("x", expression)])
    assert message in raised.value.what
    assert hint in raised.value.hint


def test_a_nesting_too_deep_is_refused() -> None:
    deep: Expr = caller
    for _ in range(5_000):
        deep = call("+", deep, 1)
    with pytest.raises(QueryError, match="nested too deeply"):
        result_schema(CALLS.schema, [Named("x", deep)])


def test_two_results_of_one_name_are_refused() -> None:
    with pytest.raises(QueryError, match="two result columns are called `x`"):
        result_schema(CALLS.schema, [Named("x", name), Named("x", caller)])


def test_a_condition_must_be_boolean() -> None:
    check_predicate(CALLS.schema, call("=", name, "a"))
    with pytest.raises(QueryError, match="the condition `caller` is of type BIGINT, not BOOLEAN"):
        check_predicate(CALLS.schema, caller)
    with pytest.raises(QueryError, match="not BOOLEAN"):
        keep(CALLS, call("+", caller, 1))


@pytest.mark.parametrize(
    ("expression", "detail", "hint"),
    [
        (call("*", caller, Literal(2**62)), "Overflow", "wider"),
        (call("*", caller, Literal(2**70)), "out of range", "wider"),
        (Cast(name, "INTEGER"), "Could not convert string 'a'", "TRY_CAST"),
        (call("//", caller, call("-", caller, 1)), "Division by zero", "nullif"),
    ],
)
def test_failures_on_the_data_name_the_expression(expression: Expr, detail: str, hint: str) -> None:
    innocent = [Named("fine", call("+", caller, 1)), Named("bad", expression), Named("also fine", name)]
    result_schema(CALLS.schema, innocent)
    with pytest.raises(EvaluationError) as raised:
        evaluate(CALLS, innocent)
    assert "failed on the data" in raised.value.what
    assert "caller + 1" not in raised.value.what
    assert detail in raised.value.detail
    assert "c0" not in raised.value.detail
    assert hint in raised.value.hint


def test_a_failure_leaves_the_evaluator_usable() -> None:
    for _ in range(3):
        with pytest.raises(PenstockError):
            value_of(Cast(name, "INTEGER"))
        assert value_of(call("+", caller, 1)) == [2, 3, None, -6]


def test_a_connection_that_broke_is_replaced() -> None:
    broken = duckdb.FunctionExpression("=", duckdb.ColumnExpression("c0"), duckdb.ConstantExpression(2))
    with pytest.raises(duckdb.Error):
        duck.select(pa.table({"c0": pa.array([1, 2], pa.int64())}), [broken])
    assert value_of(call("+", caller, 1)) == [2, 3, None, -6]


def test_the_connection_has_no_way_out() -> None:
    for query in (
        "SELECT * FROM read_text('/etc/hostname')",
        "SET threads = 2",
        "INSTALL httpfs",
        "COPY (SELECT 1) TO 'x'",
    ):
        with pytest.raises(duckdb.Error):
            duck.connection().execute(query)
    assert duck.connection().execute("SELECT current_setting('TimeZone')").fetchall() == [("UTC",)]


def test_each_thread_has_its_own_connection() -> None:
    seen: dict[int, tuple[Any, list[Any]]] = {}

    def work(number: int) -> None:
        seen[number] = (duck.connection(), [value_of(call("+", caller, number)) for _ in range(5)][-1])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(connection) for connection, _ in seen.values()}) == 4
    assert [seen[number][1][0] for number in range(4)] == [1, 2, 3, 4]


FORKS = """
import os
import pyarrow as pa
from penstock.expr.tree import Call, Column, Literal, Named
from penstock.expr.evaluate import connection as duck
from penstock.expr.evaluate.scalar import evaluate

absolute = Named("value", Call("abs", (Column("n"),)))
numbers = pa.table({"n": pa.array([-2, None, 3], pa.int64())})
evaluate(numbers, [absolute])
inherited = duck.connection()
child = os.fork()
if child == 0:
    right = evaluate(numbers, [absolute]).column(0).to_pylist() == [2, None, 3]
    os._exit(0 if right and duck.connection() is not inherited else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_process_opens_its_own_connection() -> None:
    """In a process of its own, as Spark's workers are forked: the threads that other tests left here may hold locks."""
    forked = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, timeout=120, check=False)
    assert (forked.stdout, forked.stderr) == ("0\n", "")
