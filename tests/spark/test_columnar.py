"""Expressions without an obstacle give the same over columns as in Spark, on values of all types and their edges."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type
from sqlglot import exp, parse_one

from tests.support.typed_values import column_of
from trimtab.rowwise.attempt import attempted
from trimtab.rowwise.columnar import obstacle
from trimtab.rowwise.columnar_calls import CALLS, NAMED
from trimtab.spark.settings import copy_for_jobs, on_session

KINDS = {
    "n": pa.int8(),
    "h": pa.int16(),
    "i": pa.int32(),
    "j": pa.int64(),
    "f": pa.float32(),
    "y": pa.float64(),
    "d": pa.decimal128(12, 2),
    "e": pa.decimal128(18, 6),
    "s": pa.string(),
    "b": pa.bool_(),
    "day": pa.date32(),
    "ts": pa.timestamp("us"),
    "at": pa.timestamp("us", "UTC"),
}
NUMBERS = ("n", "h", "i", "j", "f", "y", "d", "e", "7", "-1", "0.5", "3000000000", "1e3")
TEXTS = ("s", "'a'", "''", "'é漢'")
COMPARED = (NUMBERS, TEXTS, ("b", "true"), ("day", "day2"), ("ts", "ts2"), ("at", "at2"))
ROWS = 150
NUMBER = "__number"


WORDS = (
    *(
        "abc",
        "ABC",
        "Straße",
        "ΟΔΟΣ",
        "İi",
        "a%b",
        "a_b",
        "a\\b",
        "  x  ",
        "\t x \n",
        "foo=12;bar",
        "x\r\n",
        "a\n",
        "ab\r",
    ),
    *(
        "\u2028",
        "",
        "aab",
        "日本語",
        "a.b.c",
        "10.0.0.1",
        "ERROR: disk 7 full",
        "ﬁ",
        "ŉ",
        "ß",
        "Ǆ",
        "ǆ",
        "a-b_c",
        "x\u0085",
    ),
)
WRITTEN = (
    *("12", " 12 ", "-7", "+5", "1.5", "12.", ".5", "-.5", ".", "", "+", "1e3", "1E-3", "abc", "9223372036854775808"),
    *("2147483648", "-2147483648", "0x10", "1_000", "NaN", "nan", "inf", "-Infinity", "+inf", "1d", "2.5F", "\t3\n"),
    *("\u00a04", "1,000", "1e400", "1e-400", "٣", "true", "1.7976931348623157e308", "2.675", "1.0000000000000000001"),
    *("- 1", "1 2", "\x7f9\x7f", "1L", "4.9e-324", "1e", "e5", "+nan", "-nan", "INF"),
)
PRICES = (
    *(2.675, 1.005, 0.5, 1.5, 2.5, -0.5, -0.05, 1e15 + 0.5, 123456789.123456, 1e9 + 0.0000005, -0.0, 1e22, 0.045),
    *(9007199254740993.0, 1234567.895, 4503599627370496.5, 0.285, 1.1e-7, 0.49999999999999994, 1e300),
)


def table() -> pa.Table:
    """Two columns of each type: values meet others of their own type. And texts, numbers and lists with edges."""
    dice = random.Random(11)

    def drawn(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
        some = [*values, None][:ROWS]
        return pa.array([*some, *dice.choices(some, k=ROWS - len(some))], kind)

    columns = {f"{name}{again}": column_of(kind, ROWS, dice) for name, kind in KINDS.items() for again in ("", "2")}
    lists = tuple([dice.choice((1, 2, 3, None)) for _ in range(dice.randrange(4))] for _ in range(30))
    names = tuple([dice.choice(("a", "b", "", None)) for _ in range(dice.randrange(4))] for _ in range(30))
    maps = tuple([(key, dice.choice((1, None, 7))) for key in dice.sample("abc", dice.randrange(4))] for _ in range(30))
    columns |= {"w": drawn(WORDS, pa.string()), "num": drawn(WRITTEN, pa.string()), "p": drawn(PRICES, pa.float64())}
    columns |= {"l": drawn(lists, pa.list_(pa.int64())), "ls": drawn(names, pa.list_(pa.string()))}
    structs = tuple({"a": number, "in": {"s": name}} for number, name in ((1, "x"), (None, "y"), (2, None)))
    columns["st"] = drawn(structs, pa.struct({"a": pa.int64(), "in": pa.struct({"s": pa.string()})}))
    return pa.table(columns | {"m": drawn(maps, pa.map_(pa.string(), pa.int64()))})


def comparisons() -> Iterator[str]:
    for operands in COMPARED:
        for left, right in itertools.product(operands, repeat=2):
            other = f"{right}2" if left == right and right in KINDS else right
            yield from (f"{left} {operator} {other}" for operator in ("=", "<>", "<", "<=", "<=>"))


def arithmetic() -> Iterator[str]:
    for left, right in itertools.product(NUMBERS, repeat=2):
        other = f"{right}2" if left == right and right in KINDS else right
        yield from (f"{left} {operator} {other}" for operator in ("+", "-", "*"))
    yield from (f"-{name}" for name in NUMBERS[:8])
    yield from (f"{left} / {right}" for left, right in itertools.product(("n", "i", "j", "y", "0", "7"), repeat=2))
    yield from ("j % 7", "i % 1", "n % 5", "i % 0", "j % 3000000000", "y % y2", "h % 100000", "j / 0", "y / (y2 - y2)")
    yield from (f"{left} % {right}" for left, right in itertools.product(("n", "i", "j"), ("n2", "i2", "j2")))
    yield from (f"{left} div {right}" for left, right in itertools.product(("n", "j", "0"), ("n2", "i2", "j2", "0")))
    yield from (f"abs({name})" for name in ("n", "h", "i", "j", "f", "y", "d"))
    yield from ("i & 255", "j | i2", "n ^ h", "hour(at) * 60 + minute(at)", "day(ts) - 1", "hour(ts) / 2")
    yield from (f"round(p{places})" for places in ("", ", 0", ", 1", ", 2", ", 6", ", 9"))
    yield from (f"{name}({of})" for name, of in itertools.product(("floor", "ceil"), ("y", "p", "i", "j")))
    yield from (f"CAST({of} AS {kind})" for of, kind in itertools.product(("y", "f", "p"), ("INT", "BIGINT")))
    yield from ("round(y, 2)", "floor(p * 100) / 100", "CAST(p * 100 AS BIGINT)", "sqrt(i)", "sqrt(j)")
    yield from ("d + d2", "d - 1", "d + e", "d * 2", "d * 1.5", "d * j", "e + e2 > 0.5", "d + 0.001")
    yield from ("(i + 1) * i - n", "j * j * j + 1 > 0", "y * 2 + j - 0.25", "-(-j - 1)", "h * h + h")


OTHERS = (
    "b AND b2", "b OR b2", "NOT b", "b AND NULL", "b OR NULL", "i > 0 AND y < 0 OR NOT b",
    "s IS NULL", "y IS NOT NULL", "i IN (1, 0, -1)", "i IN (0, NULL)", "i NOT IN (0, 3)", "s IN ('', 'a', s2)",
    "y IN (0, 0.5)", "d IN (0, 1, 0.01)", "j BETWEEN -5 AND i", "y NOT BETWEEN y2 AND 100", "s BETWEEN 'a' AND s2",
    "day BETWEEN day2 AND day",
    "CASE WHEN i > 0 THEN j WHEN b THEN 0 END",
    "CASE WHEN b THEN s ELSE s2 END", "CASE WHEN y > 0 THEN y ELSE NULL END",
    "if(b, d, d2)", "if(i > j, n, j)", "coalesce(s, s2, 'none')", "coalesce(n, i, 1)", "coalesce(y, y2)",
    "coalesce(NULL, ts, ts2)",
    "s LIKE 'a%'", "s LIKE '%é%'", "s LIKE '_'", "s LIKE '%_\"%'", "s LIKE ''", "s NOT LIKE '%Z%0%'",
    "length(s)", "length(s) > 10", "char_length(s) = i", "substring(s, 1, 3)", "substr(s, 2)", "substring(s, 5, 0)",
    "substring(s, 40, 100)", "s || s2", "s || '-' || s2",
    *(f"CAST({a} AS {b})" for a, b in itertools.product(("n", "h", "i", "j", "f", "y"), ("BIGINT", "DOUBLE", "INT"))),
    *(f"{name}(w{rest})" for name, rest in itertools.product(("trim", "ltrim", "rtrim", "btrim"), ("", ", 'xa'"))),
    *(f"{name}({of})" for name, of in itertools.product(("upper", "lower", "md5", "length"), ("w", "s", "num"))),
    "trim(BOTH 'a' FROM w)", "replace(w, 'a', 'b')", "replace(s, 'é', '')", "instr(w, 'a')", "locate('b', s)",
    "left(s, 2)", "right(w, 2)", "lpad(w, 5, '0')", "rpad(s, 5)", "lpad(w, 2, 'xy')", "repeat(w, 2)",
    "translate(w, 'ab', 'cd')", "translate(s, 'aZ', 'x')", "split_part(w, '.', 2)", "concat(w, i)", "w || n",
    "w LIKE 'a\\\\%b'", "w LIKE 'a\\\\_b'", "w LIKE 'a!%b' ESCAPE '!'", "w LIKE '%\\\\\\\\%'", "w ILIKE 'a%'",
    "w ILIKE '%ss%'", "w ILIKE '%STRASSE%'", "w RLIKE '^a'", "w RLIKE 'c$'", "w RLIKE 'a|b'", "w RLIKE 'a.b'",
    "w RLIKE '^[A-Z][a-z]+ß?'", "w RLIKE '\\\\d+\\\\.\\\\d+'", "w RLIKE '^x$'", "w RLIKE 'x.?$'",
    "w RLIKE '\\\\S+ \\\\S+'",
    "w RLIKE '^(\\\\d{1,3}\\\\.){3}\\\\d{1,3}$'", "regexp_like(s, '[a-zé]')", "s RLIKE '^.*$'", "s RLIKE '[^a-z\\\\s]'",
    "regexp_extract(w, '(\\\\d+)', 1)", "regexp_extract(w, '([a-z]+)=(\\\\d+)', 2)", "regexp_extract(w, 'b', 0)",
    "regexp_extract(w, '(a)|(b)', 2)", "regexp_extract(w, '(x)?b')", "regexp_replace(w, '[0-9]+', '#')",
    "w RLIKE '(?i)error: [a-d]isk'", "regexp_extract(s, '(?i)([^a-y]+)')", "regexp_replace(w, 'a+?', '')",
    "w RLIKE '(?i)straße'", "concat_ws('-', w, s)", "regexp_replace(s, '[^a-zA-Z0-9]', '_')",
    *(f"CAST(num AS {kind})" for kind in ("INT", "BIGINT", "DOUBLE")), "CAST(i AS BOOLEAN)", "CAST(b AS BIGINT)",
    *(f"{name}({at})" for name, at in itertools.product(("quarter", "dayofweek", "weekday", "dayofyear", "weekofyear"),
                                                        ("day", "ts", "at"))),
    *(f"date_trunc('{unit}', {at})" for unit, at in itertools.product(("YEAR", "QUARTER", "MONTH", "WEEK",
    "DAY", "hour",
                                                                       "MINUTE", "SECOND"), ("ts", "at"))),
    *(f"{at} {sign} INTERVAL {length}" for at, sign, length in itertools.product(
        ("ts", "at"), "+-", ("'5' MINUTE", "3 HOURS", "1 DAY", "2 WEEKS", "1 MONTH", "1 YEAR"))),
    "day + INTERVAL 1 DAY", "day - INTERVAL 2 MONTH", "date_add(day, 3)", "date_sub(day, 3)", "add_months(day, 1)",
    "datediff(day, day2)", "datediff(ts, at)", "last_day(day)", "CAST(ts AS DATE)", "to_date(at)", "date(ts)",
    "second(ts)", "extract(HOUR FROM ts)", "extract(WEEK FROM at)", "CAST(at AS TIMESTAMP_NTZ)",
    "CAST(ts AS TIMESTAMP)",
    "unix_timestamp(at)", "unix_micros(at)", "unix_millis(at)", "unix_seconds(at)", "CAST(at AS LONG)",
    "CAST(at AS DOUBLE)", "ts > ts2 - INTERVAL '10' SECOND", "l[0]", "l[1] + 1", "ls[0]", "element_at(l, 1)",
    "element_at(ls, -1)", "size(l)", "size(ls) > 1", "array_contains(l, 3)", "array_contains(ls, 'a')",
    "st['a'] + 1", "st['in']['S'] = 'x'", "st IS NULL",
    "NOT array_contains(l, 1)", "m['a']", "element_at(m, 'b')", "m['zz'] IS NULL", "l IS NULL", "isnull(i)",
    "isnotnull(s)", "nvl2(i, 1, 2)", "b IS TRUE", "b IS NOT FALSE", "i IS DISTINCT FROM 0", "b IS NULL",
    "CAST(n AS SMALLINT)", "bigint(i)", "double(j)", "CAST(d AS DOUBLE)", "CAST(b AS INT)", "CAST(b AS STRING)",
    *(f"CAST({name} AS {kind})" for name, kind in itertools.product(("n", "h", "i", "j"), ("FLOAT", "STRING"))),
    "coalesce(y, 0)", "coalesce(y, 0.5)", "if(b, y, 1)", "CASE WHEN b THEN y ELSE j END", "greatest(y, i)",
    "coalesce(f, y)", "CASE WHEN b THEN d ELSE y END", "nullif(y, 0)", "least(j, y, 0.25)",
    "nullif(i, 0)", "nullif(s, '')", "nullif(y, y2)", "isnan(y)", "abs(y)", "sqrt(y)", "concat(s, s2, '!')",
    "startswith(s, 'a')", "endswith(s, '0')", "contains(s, 'Z')", "contains(s, s2)", "greatest(i, j)",
    "least(y, y2, 0e0)", "greatest(y, y2)", "least(s, s2)", "greatest(day, day2)", "ifnull(s, 'x')",
    "CASE i WHEN 0 THEN 1 WHEN n THEN 2 END",
    *(f"{field}({at})" for field, at in itertools.product(("year", "month", "day"), ("day", "ts", "at"))),
    "hour(ts)", "minute(at)", "hour(at) BETWEEN 9 AND 17", "year(day) > i",
    "day < DATE'2026-01-01'", "ts >= TIMESTAMP_NTZ'1970-01-01 00:00:00.5'", "at > TIMESTAMP'2026-01-01 00:00:00'",
    "ts BETWEEN TIMESTAMP_NTZ'1970-01-01 00:00:00' AND ts2",
)  # fmt: skip


def by_spark(spark: Any, rows: pa.Table, texts: list[str], kinds: list[pa.DataType]) -> pa.Table:
    """The expressions as tier 1 computes them in the JVM: each is cast to the type that the query expects."""
    numbered = rows.append_column(NUMBER, pa.array(range(rows.num_rows)))
    session = copy_for_jobs(spark)
    frame = on_session(
        spark.createDataFrame(numbered, schema=from_arrow_schema(numbered.schema, prefer_timestamp_ntz=True)), session
    )
    columns = [
        F.expr(text).cast(from_arrow_type(kind, prefer_timestamp_ntz=True)).alias(f"r{at}")
        for at, (text, kind) in enumerate(zip(texts, kinds, strict=True))
    ]
    return frame.select(NUMBER, *columns).toArrow().sort_by(NUMBER).drop_columns([NUMBER])


def shown(column: pa.ChunkedArray | pa.Array) -> list[str]:
    """The values as text; times as numbers, as not all of them are times of Python's."""
    kind = column.type
    number = pa.int64() if pa.types.is_timestamp(kind) else pa.int32() if pa.types.is_date(kind) else kind
    return list(map(repr, column.cast(number).to_pylist()))


@pytest.mark.parametrize(
    "group", [comparisons, arithmetic, lambda: iter(OTHERS)], ids=["compared", "computed", "others"]
)
def test_what_has_no_obstacle_is_the_same(group: Any, spark: Any) -> None:
    rows = table()
    texts = [text for text in dict.fromkeys(group()) if obstacle(text, rows.schema) is None]
    attempts = [attempted(rows, [text], [None])[0] for text in texts]
    right = by_spark(spark, rows, texts, [each.column.type for each in attempts])
    wrong = [
        text
        for text, attempt, column in zip(texts, attempts, right.columns, strict=True)
        if attempt.failed is not None or shown(attempt.column) != shown(column)
    ]
    assert not wrong


def test_each_function_on_the_list_is_compared() -> None:
    schema = table().schema
    texts = [text for text in (*comparisons(), *arithmetic(), *OTHERS) if obstacle(text, schema) is None]
    parts = [part for text in texts for part in parse_one(text, read="spark").walk()]
    assert set(CALLS) - {type(part) for part in parts} == set()
    assert set(NAMED) - {part.name.lower() for part in parts if isinstance(part, exp.Anonymous)} == set()
    # These take the JVM's way; of any other text here that isn't compared it would be an oversight.
    known = ["CAST(j AS INT)", "trim(w, 'xa')", "ltrim(w, 'xa')", "rtrim(w, 'xa')", "bigint(i)"]
    assert [text for text in OTHERS if obstacle(text, schema) is not None] == known
