"""Strings in the methods of streams: names of columns, or SQL text that means what it means in a script."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import penstock as ps
from penstock.api.streams import Stream
from penstock.errors import QueryError

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("qty", pa.int64()), ("price", pa.float64()), ("a b", pa.int64())])
A = ps.read.table(SCHEMA.empty_table(), time="ts", name="a")
B = ps.read.table(SCHEMA.empty_table(), time="ts", name="b")
QTY, PRICE = ps.col("qty"), ps.col("price")
TENS = A.group_by("qty").window(ps.tumbling("10s"))

SAME: dict[str, tuple[Stream, Stream]] = {
    "where": (A.where("qty > 1 AND price < 2e0"), A.where((QTY > 1) & (PRICE < 2.0))),
    "where, of a window": (TENS.agg(n=ps.count()).where("n > 3"), TENS.agg(n=ps.count()).where(ps.col("n") > 3)),
    "select": (A.select("ts", "qty + 1 AS more"), A.select("ts", more=QTY + 1)),
    "select without AS": (A.select("qty + 1"), A.select(QTY + 1)),
    "select by keyword": (A.select("ts", more="qty + 1"), A.select("ts", more=QTY + 1)),
    "select a column by another name": (A.select("ts", n="qty"), A.select("ts", n=QTY)),
    "select all": (A.select("*", "qty + 1 AS more"), A.with_columns(more=QTY + 1)),
    "a column that would be no SQL": (A.select("ts", "a b"), A.select("ts", ps.col("a b"))),
    "a quoted column": (A.select("ts", '"a b" + 1 AS c'), A.select("ts", c=ps.col("a b") + 1)),
    "names in any case": (A.select("TS", "Qty + 1 AS more"), A.select("ts", more=QTY + 1)),
    "a constant": (A.select("ts", kind="'call'"), A.select("ts", kind=ps.lit("call"))),
    "with_columns": (A.with_columns(total="price * qty"), A.with_columns(total=PRICE * QTY)),
    "group_by": (
        A.group_by("qty % 2 AS odd").window(ps.tumbling("1s")).agg(n=ps.count()),
        A.group_by(odd=QTY % 2).window(ps.tumbling("1s")).agg(n=ps.count()),
    ),
    "agg": (TENS.agg(total="sum(price)", n="count(*)"), TENS.agg(total=ps.sum("price"), n=ps.count())),
    "agg with AS": (TENS.agg("sum(price) AS total", "count(*)"), TENS.agg(total=ps.sum("price"), count=ps.count())),
    "agg in parentheses": (TENS.agg(s="((sum(price)))"), TENS.agg(s=ps.sum("price"))),
    "agg without a name": (TENS.agg(ps.sum("price")), TENS.agg(sum_price=ps.sum("price"))),
    "agg of distinct values": (TENS.agg(n="count(DISTINCT price)"), TENS.agg(n=ps.count_distinct("price"))),
    "an aggregate of text": (TENS.agg(s=ps.sum("price * qty")), TENS.agg(s=ps.sum(PRICE * QTY))),
    "split": (A.split("qty > 1", "price > 1")[1], A.split(QTY > 1, PRICE > 1)[1]),
    "join, where": (
        A.join(B, "qty", within="1s", where="price < right_price"),
        A.join(B, "qty", within="1s", where=ps.col("price") < ps.col("right_price")),
    ),
    "join, on": (A.join(B, [("qty + 1", "qty")], within="1s"), A.join(B, [(QTY + 1, "qty")], within="1s")),
    "theta join": (
        A.theta_join(B, "qty < right_qty", within="1s"),
        A.theta_join(B, ps.col("qty") < ps.col("right_qty"), within="1s"),
    ),
    "top": (A.top(1, ps.desc("price * qty"), keys=["qty % 2"]), A.top(1, ps.desc(PRICE * QTY), keys=[QTY % 2])),
}


@pytest.mark.parametrize("what", SAME)
def test_text_means_the_same_as_an_expression(what: str) -> None:
    by_text, by_expression = SAME[what]
    assert by_text.explain() == by_expression.explain()


DEEP = " + ".join(["qty"] * 400)
WRONG: dict[str, tuple[Callable[[], object], str, str, str]] = {
    "where": (lambda: A.where("qtty > 1"), "unknown column `qtty`", "where(...), line 1, column 1", "`qty`"),
    "a type": (lambda: A.where("qty + 1"), "not BOOLEAN", "", "compare it"),
    "syntax": (lambda: A.where("qty >"), "syntax error", "where(...), line 1", ""),
    "not closed": (lambda: A.where("qty = 'x"), "not closed", "column 7", ""),
    "select": (lambda: A.select("ts", "lowr(qty) AS x"), "unknown function `lowr`", "column 1", "`lower`"),
    "select by keyword": (lambda: A.select(x="qty / "), "syntax error", "select(x=...), line 1", ""),
    "text as a constant": (
        lambda: A.select(kind="call"),
        "unknown column `call`",
        "select(kind=...)",
        "ps.lit('call')",
    ),
    "several items": (lambda: A.select("ts, qty"), "one expression was expected", "column 1", "separate arguments"),
    "a statement": (lambda: A.where("1; SELECT 2"), "`;` is not allowed here", "column 2", "one expression"),
    "a query": (lambda: A.where("qty > 1 LIMIT 3"), "one expression was expected", "column 1", ""),
    "nothing": (lambda: A.where("  "), "the text of where(...) is empty", "", "name of a column"),
    "an alias in a condition": (lambda: A.where("qty > 1 AS x"), "an alias is not allowed here", "column 1", "AS x"),
    "an empty name": (lambda: A.select('qty AS ""'), "empty name", "column 1", "after AS"),
    "an aggregate of rows": (lambda: A.select("sum(qty)"), "an aggregate is not allowed here", "column 1", ".agg("),
    "agg": (lambda: TENS.agg(x="sum(qtty)"), "unknown column `qtty`", "agg(x=...), line 1, column 5", "`qty`"),
    "an aggregate's empty name": (
        lambda: TENS.agg('sum(qty) AS ""'),
        "empty name",
        "agg(...), line 1",
        "after AS",
    ),
    "agg of a row": (lambda: TENS.agg("price"), "one aggregate was expected", "agg(...)", "sum(qty)"),
    "agg of two": (lambda: TENS.agg(x="sum(qty) / count(*)"), "one aggregate was expected", "agg(x=...)", "select"),
    "agg of a column": (lambda: TENS.agg(ps.col("qty")), "a ColumnExpr is not an aggregate", "", "sum(qty)"),
    "join": (
        lambda: A.join(B, "qty", within="1s", where="prise < 1"),
        "unknown column `prise`",
        "where, line 1, column 1",
        "`price`",
    ),
    "a long chain": (lambda: A.where(DEEP), "nested more than 200 levels deep", "where(...), line 1, column 1", "IN"),
    "a long chain in select": (
        lambda: A.select(f"{DEEP} AS x"),
        "more than 200 levels deep",
        "select(...), line 1",
        "",
    ),
    "a long chain in agg": (lambda: TENS.agg(x=f"sum({DEEP})"), "more than 200 levels", "agg(x=...), line 1", ""),
    "a CASE": (lambda: ps.when("qty > 1", 1), "cannot be a string", "'qty > 1'", "select"),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_text_is_told_as_in_a_script(what: str) -> None:
    use, said, where, hint = WRONG[what]
    with pytest.raises(QueryError) as caught:
        use()
    assert said in caught.value.what
    assert where in caught.value.detail
    assert hint in caught.value.hint
    assert ("ps.lit" in caught.value.hint) == (what == "text as a constant")  # beside SQL it would be of no help


def test_text_filters_the_rows() -> None:
    rows = [{"ts": n, "qty": n % 3} for n in range(9)]
    run = ps.read.table(rows, time="ts").where("qty = 2").select("ts", "qty * 10 AS ten").to.memory()
    assert run.start(master="inline").wait().result().to_pylist() == [{"ts": n, "ten": 20} for n in (2, 5, 8)]
