from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa
import pytest

from penstock.errors import QueryError
from penstock.expr.evaluate.duckdb_tree import _SYNTAX
from penstock.expr.evaluate.scalar import evaluate
from penstock.expr.functions import FUNCTIONS, REFUSED, require_function
from penstock.expr.text import text
from penstock.expr.tree import Call, Column, Expr, Literal, Named

ROW = pa.table(
    {
        "n": pa.array([6], pa.int64()), "x": [0.5], "s": ["a.b"], "t": pa.array([10**15], pa.timestamp("us")),
        "l": [[3, 4]], "r": [{"a": 5}], "m": pa.array([[("k", 7)]], pa.map_(pa.string(), pa.int64())),
    }
)  # fmt: skip

# Arguments for the functions that a number, or as many numbers as they need, do not suit.
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "asin": (Column("x"),), "acos": (Column("x"),), "isnan": (Column("x"),), "isinf": (Column("x"),),
    "isfinite": (Column("x"),), "between": (Column("n"), 1, 9), "like": (Column("s"), "a%"),
    "ilike": (Column("s"), "A%"), "and": (True, False), "or": (True, False), "not": (True,), "if": (True, 1, 2),
    "left": (Column("s"), 1), "right": (Column("s"), 1), "repeat": (Column("s"), 2), "lpad": (Column("s"), 5, "x"),
    "rpad": (Column("s"), 5, "x"), "substring": (Column("s"), 2), "substr": (Column("s"), 2, 1),
    "split_part": (Column("s"), ".", 2), "json_extract_string": ('{"a": 1}', "$.a"), "chr": (97,),
    "date_trunc": ("day", Column("t")), "date_part": ("year", Column("t")), "strftime": (Column("t"), "%Y"),
    "strptime": ("2026", "%Y"), "try_strptime": ("x", "%Y"), "make_date": (2026, 1, 2),
    "date_diff": ("day", Column("t"), Column("t")), "datediff": ("day", Column("t"), Column("t")),
    "hex": (Column("s"),), "make_timestamp": (Column("n"),), "to_json": (Column("r"),), "len": (Column("l"),),
    "cardinality": (Column("m"),), "map_keys": (Column("m"),), "map_values": (Column("m"),),
    "map_contains": (Column("m"), "k"), "map_extract_value": (Column("m"), "k"), "struct_extract": (Column("r"), "a"),
    "array_extract": (Column("l"), 1), "list_extract": (Column("l"), 1), "list_contains": (Column("l"), 3),
    "array_to_string": (Column("l"), "-"),
}  # fmt: skip
TEXT = (
    "lower upper length strlen reverse ascii md5 sha256 trim ltrim rtrim starts_with ends_with prefix suffix contains "
    "strpos instr levenshtein regexp_matches regexp_full_match regexp_extract regexp_replace replace translate "
    "concat_ws"
)
TIME = (
    "year quarter month week day hour minute second dayofweek isodow dayofyear dayname monthname last_day epoch "
    "epoch_ms epoch_us"
)


def example(name: str) -> Expr:
    """A call of the function that has a value."""
    count = FUNCTIONS[name].at_least
    if name in ARGUMENTS:
        given = ARGUMENTS[name]
    elif name == "time_bucket":
        return Call(name, (Call("to_hours", (Literal(1),)), Column("t")))
    elif name in TIME.split():
        given = (Column("t"),)
    else:
        given = ((Column("s"), "a", "b") if name in TEXT.split() else (Column("n"), 3, 4))[:count]
    return Call(name, tuple(a if isinstance(a, Column) else Literal(a) for a in given))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_computes_what_its_text_says(name: str) -> None:
    expression = example(name)
    if name.startswith("to_") and name not in ("to_timestamp", "to_json"):
        expression = Call("+", (Column("t"), expression))  # an interval is no column
    value = evaluate(ROW, [Named("value", expression)]).column(0).to_pylist()[0]
    assert value is not None or name == "try_strptime"
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("row_of_one", ROW)
    (expected,) = connection.sql(f"SELECT {text(expression)} FROM row_of_one").fetchall()[0]
    assert str(expected).removesuffix("+00:00") == str(value)


def test_every_function_gives_the_same_value_each_time() -> None:
    query = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability NOT IN ('CONSISTENT')"
    changing = {name for (name,) in duckdb.connect().execute(query).fetchall()}
    assert changing.isdisjoint(FUNCTIONS)
    assert "random" in changing


def test_every_function_is_known_to_duckdb() -> None:
    known = {name for (name,) in duckdb.connect().execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert set(FUNCTIONS) - set(_SYNTAX) - known <= {"ifnull"}


@pytest.mark.parametrize("name", ["random", "NOW", "uuid", "getenv", "current_setting", "age", "nextval"])
def test_a_function_that_is_not_repeatable_is_refused_with_the_reason(name: str) -> None:
    with pytest.raises(QueryError) as raised:
        require_function(name, 0)
    assert f"`{name}` cannot be used in a continuous query" in raised.value.what
    assert "run again" in raised.value.detail
    assert raised.value.hint


def test_no_function_is_both_allowed_and_refused() -> None:
    assert set(FUNCTIONS).isdisjoint(REFUSED)


def test_an_unknown_function_gets_a_suggestion() -> None:
    with pytest.raises(QueryError) as raised:
        require_function("date_trunk", 2)
    assert raised.value.hint == "did you mean `date_trunc`?"


def test_names_are_folded_and_aliases_resolved() -> None:
    assert require_function("LOWER", 1).name == "lower"
    assert require_function("!=", 2).name == "<>"
    assert require_function("EXTRACT", 2).name == "date_part"


@pytest.mark.parametrize(("name", "count"), [("lower", 2), ("=", 1), ("and", 1), ("-", 3), ("like", 4)])
def test_the_number_of_arguments_is_checked(name: str, count: int) -> None:
    with pytest.raises(QueryError, match=r"takes .* argument"):
        require_function(name, count)
