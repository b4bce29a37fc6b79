"""Random MATCH_RECOGNIZE queries with random small tables, from a seed or any other choices.

They cover every construct of the language, and prefer queries that match something. Two engines that
agree on some ten thousand of them agree.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from tests.support.choices import (
    Choices,
    ScriptedChoices,
    SeededChoices,
    between,
    chance,
    one_of,
    repeat,
    simplify,
    some_of,
)
from tests.support.query_expressions import Scope, a_condition, a_measure
from tests.support.query_patterns import a_pattern

SCHEMA = pa.schema(
    {
        "k": pa.int64(),
        "k2": pa.string(),
        "ts": pa.timestamp("us"),
        "x": pa.int64(),
        "y": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(9, 2),
        "b": pa.bool_(),
    }
)
"""The table `t` of every query: two keys, a time, and a payload column of each kind."""

MAX_ROWS = 14
_DAWN = datetime.datetime(2026, 1, 1)
_GAPS_S = (1, 1, 0, 0, 2, 5)  # between a row and the next
# Tiny ranges, so that rows often have much in common; repeated values are more frequent.
_VALUES: dict[str, tuple[object, ...]] = {
    "k": (1, 1, 1, 2, 2, None),
    "k2": ("u", "u", "u", "v"),
    "x": (0, 1, 2, 3, 4, 1, 2, None),
    "y": (0.0, 0.5, 1.0, 1.5, 2.0, 2.5) * 2 + (None, math.nan),
    "s": ("a", "b", "c", "a", "b", None),
    "d": (*(Decimal(n) / 4 for n in range(10)), None),
    "b": (True, False, True, None),
}
_ROWS_PER_MATCH = (
    "",  # one row is the default
    "ONE ROW PER MATCH",
    "ALL ROWS PER MATCH",
    "ALL ROWS PER MATCH SHOW EMPTY MATCHES",
    "ALL ROWS PER MATCH OMIT EMPTY MATCHES",
    "ALL ROWS PER MATCH WITH UNMATCHED ROWS",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A query, its table `t`, and the row numbers at which to cut the table into batches."""

    sql: str
    table: pa.Table
    cuts: tuple[int, ...]


def random_case(seed: int) -> Case:
    """The case of a seed: a valid query, though its SKIP clause may fail with a `MatchError`.

    >>> random_case(17).sql.splitlines()[0]
    'SELECT * FROM t MATCH_RECOGNIZE ('
    """
    return a_case(SeededChoices(seed))


def simplest_case(seed: int, fails: Callable[[Case], bool]) -> Case:
    """The failing case of a seed, made as simple as possible while it still fails."""
    choices = SeededChoices(seed)
    a_case(choices)
    script = simplify(choices.script, lambda script: fails(a_case(ScriptedChoices(script))))
    return a_case(ScriptedChoices(script))


def a_case(choices: Choices) -> Case:
    """A query with a table and cuts."""
    table = a_table(choices)
    cuts = sorted(choices.below(table.num_rows + 1) for _ in repeat(choices, 60, 4))
    return Case(a_query(choices), table, tuple(cuts))


def a_table(choices: Choices) -> pa.Table:
    """A table of `SCHEMA`, small, with nulls; its times never go back but often tie."""
    columns: dict[str, list[object]] = {name: [] for name in SCHEMA.names}
    second = 0
    for _ in repeat(choices, 96, MAX_ROWS):
        second += one_of(choices, *_GAPS_S)
        columns["ts"].append(_DAWN + datetime.timedelta(seconds=second))
        for name, values in _VALUES.items():
            columns[name].append(one_of(choices, *values))
    return pa.table(columns, schema=SCHEMA)


def a_query(choices: Choices) -> str:
    """The text of a query `SELECT * FROM t MATCH_RECOGNIZE (...)`."""
    rows_per_match = one_of(choices, *_ROWS_PER_MATCH)
    pattern = a_pattern(
        choices,
        exclusion="UNMATCHED" not in rows_per_match,  # the standard forbids the two together
        timeout=chance(choices, 15),
    )
    subsets = _subsets(choices, pattern.labels)
    scope = Scope(pattern.labels, tuple(subsets))
    partition = one_of(choices, "", "PARTITION BY k", "PARTITION BY k", "PARTITION BY k, k2")
    measures = [f"{a_measure(choices, scope)} AS m{i}" for i in repeat(choices, 65, 4)]
    if not measures and not partition and "ALL" not in rows_per_match:
        measures = ["MATCH_NUMBER() AS m0"]  # or the output would have no columns
    clauses = [
        partition,
        "ORDER BY ts" + one_of(choices, "", "", ", x", ", s DESC", ", x DESC NULLS LAST, y"),
        "MEASURES " + ",\n    ".join(measures) if measures else "",
        rows_per_match,
        _skip(choices, (*pattern.labels, *subsets)),
        f"PATTERN ({pattern.text})",
    ]
    if pattern.timeout or chance(choices, 20):
        clauses.append(f"WITHIN INTERVAL '{between(choices, 1, 6)}' SECOND")
    if subsets:
        items = (f"{name} = ({', '.join(labels)})" for name, labels in subsets.items())
        clauses.append("SUBSET " + ", ".join(items))
    clauses.append("DEFINE " + ",\n    ".join(_definitions(choices, scope)))
    body = "".join(f"\n  {clause}" for clause in clauses if clause)
    return f"SELECT * FROM t MATCH_RECOGNIZE ({body}\n)"


def _subsets(choices: Choices, labels: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    names = ("U", "W")[: one_of(choices, 0, 0, 1, 1, 2)]
    return {name: some_of(choices, labels) for name in names}


def _skip(choices: Choices, variables: tuple[str, ...]) -> str:
    plain = ("", "", "", "PAST LAST ROW", "TO NEXT ROW", "TO NEXT ROW", "TO NEXT ROW")
    mode = one_of(choices, *plain, *plain, "TO FIRST", "TO LAST", "TO")
    if mode in {"TO FIRST", "TO LAST", "TO"}:
        # Later labels first: they are less often the first row of the match, which is an error.
        mode += f" {one_of(choices, *reversed(variables))}"
    return mode and f"AFTER MATCH SKIP {mode}"


def _definitions(choices: Choices, scope: Scope) -> list[str]:
    defined = [label for label in scope.labels if not chance(choices, 25)] or [scope.labels[0]]
    return [f"{label} AS {a_condition(choices, scope.within(label))}" for label in defined]
