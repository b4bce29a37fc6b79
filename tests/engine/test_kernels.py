"""What all kernels take and give back, and how their source is made."""

from __future__ import annotations

import ast
from typing import Any

import pyarrow as pa
import pytest

import trimtab
from trimtab.engine.match.compile.program import compile_pattern
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels import codegen, interface, thread_kernel
from trimtab.engine.match.kernels.codegen import generate
from trimtab.engine.match.kernels.helpers import PLAIN_NAMES
from trimtab.engine.match.kernels.interface import RESULTS, Column, Inputs, Outputs, parameters
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.kernels.template import fill
from trimtab.engine.operator import Moment
from trimtab.language.compile import compile_query
from trimtab.language.compiled import Query, operator_of

SCHEMA = pa.schema([("k", pa.string()), ("i", pa.int64()), ("x", pa.int64()), ("s", pa.string())])
QUERIES = {
    "automaton": "MEASURES LAST(B.x) AS x PATTERN (A B+) DEFINE B AS B.x > PREV(B.x)",
    "threads": "MEASURES SUM(x) AS x ALL ROWS PER MATCH PATTERN (A B+?) DEFINE B AS B.x > A.x",
    "Python values": "MEASURES A.x AS x PATTERN (A B) DEFINE B AS levenshtein(A.s, B.s) < 2",
}


def compiled(clauses: str) -> Query:
    return compile_query(f"SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY i {clauses})", {"t": SCHEMA})


def generated(clauses: str) -> Generated:
    query = compiled(clauses).operator
    assert isinstance(query, MatchQuery)
    return generate(query, compile_pattern(query.pattern, query.labels), frozenset(), False)


def kernel_of(source: str) -> ast.FunctionDef:
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    return function


@pytest.mark.parametrize("clauses", QUERIES.values(), ids=QUERIES.keys())
def test_every_kernel_takes_the_same_inputs_and_gives_the_same_outputs(clauses: str) -> None:
    made = generated(clauses)
    kernel = kernel_of(made.source)
    taken = [argument.arg for argument in kernel.args.args]
    assert ", ".join(taken) == parameters(len(made.columns), len(made.literals), tables=bool(made.tables))
    returned = kernel.body[-1]
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    assert ast.unparse(returned.value) == f"({RESULTS})"


@pytest.mark.parametrize("clauses", QUERIES.values(), ids=QUERIES.keys())
def test_a_kernel_writes_to_none_of_its_inputs(clauses: str) -> None:
    kernel = kernel_of(generated(clauses).source)
    taken = {argument.arg for argument in kernel.args.args}
    stored = [node for node in ast.walk(kernel) if isinstance(getattr(node, "ctx", None), ast.Store)]
    places = [node.value if isinstance(node, ast.Subscript) else node for node in stored]
    written = {place.id for place in places if isinstance(place, ast.Name)}
    assert written >= {"match_ints", "saved_ints", "numbers_after"}
    assert not taken & written


def test_no_parameter_or_result_of_a_kernel_has_the_name_of_another() -> None:
    names = parameters(2, 2, tables=True).split(", ") + RESULTS.replace("(", "").replace(")", "").split(", ")
    assert len(set(names)) == len(names)
    assert not set(names) & set(PLAIN_NAMES)


def test_inputs_are_in_the_order_of_the_parameters() -> None:
    def numbered(group: Any, names: list[str]) -> Any:
        return group(*(names.index(name) for name in group._fields))

    names = parameters(1, 1, tables=True).split(", ")
    kinds = ("RowRanges", "KeysBefore", "Time", "ThreadsBefore", "Constants", "Limits", "Tables")
    groups: list[Any] = [numbered(getattr(interface, kind), names) for kind in kinds]
    inputs = Inputs._make(
        [*groups, (Column(names.index("column0"), names.index("nulls0")),), (names.index("literal0"),)]
    )
    assert inputs.positional() == tuple(range(len(names)))


def test_outputs_are_in_the_order_in_which_kernels_return_them() -> None:
    groups = ast.parse(f"({RESULTS})", mode="eval").body
    assert isinstance(groups, ast.Tuple)
    results = tuple(tuple(ast.unparse(name) for name in group.elts) for group in groups.elts)  # type: ignore[attr-defined]
    outputs = Outputs.of(results)
    assert [group._asdict() for group in outputs] == [{name: name for name in group} for group in results]


def test_every_block_of_the_template_is_used() -> None:
    templates = [thread_kernel.OUTLINE, *(block for block in thread_kernel.BLOCKS.values() if isinstance(block, str))]
    used = {line.partition("|")[2].strip() for template in templates for line in template.split("\n")}
    assert set(thread_kernel.BLOCKS) <= used


def test_a_template_leaves_lists_of_lines_unchanged() -> None:
    assert fill("|if x:\n|    BLOCK\n|    END", {}, {"BLOCK": ["f('END | START')"]}, {"END": 2}) == (
        "if x:\n    f('END | START')\n    2"
    )


def test_the_text_of_a_condition_is_not_mistaken_for_a_name_of_the_template() -> None:
    table = pa.table({"i": [1, 2], "s": ["a", "b"]})
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY i MEASURES A.i AS a PATTERN (A B)
        DEFINE B AS reverse(concat(A.s, B.s, 'END')) = 'DNEba')"""
    assert trimtab.evaluate(sql, {"t": table}).to_pylist() == [{"a": 1}]


def test_matches_are_counted_once_where_the_automaton_has_to_leave_a_batch_to_the_general_kernel() -> None:
    # Where no row has a null no thread is ever at C, so an automaton for such rows has no configuration for it.
    query = compiled("""MEASURES MATCH_NUMBER() AS n, FIRST(x) AS x PATTERN (A B C D | E F)
        DEFINE A AS x = 1, B AS (B.x > A.x) IS NULL, C AS x = 2, D AS x = 3, E AS x = 4, F AS x = 5""")
    first = pa.table([list("aaa"), [0, 1, 2], [1, None, 2], [""] * 3], schema=SCHEMA)
    second = pa.table([list("abb"), [3, 4, 5], [3, 4, 5], [""] * 3], schema=SCHEMA)
    before, after = operator_of(query), operator_of(query)  # one that has observed the null, and one that has not
    _, state = before.advance(query.intake.run(first), {}, Moment(None))
    output, _ = after.advance(query.intake.run(second), state, Moment(None))
    assert output.select(["k", "slot0", "slot1"]).to_pylist() == [
        {"k": "a", "slot0": 1, "slot1": 1},
        {"k": "b", "slot0": 1, "slot1": 4},
    ]


def test_an_automaton_that_would_take_minutes_to_compile_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    assert generated(QUERIES["automaton"]).deterministic
    monkeypatch.setattr(codegen, "MOST_LINES", 10)
    assert not generated(QUERIES["automaton"]).deterministic
