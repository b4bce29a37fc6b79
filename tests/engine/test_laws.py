"""The laws of the columnar matcher: it agrees with the reference, however its input is cut or delayed."""

from __future__ import annotations

import datetime
import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, given, note, reject, settings
from hypothesis import strategies as st

from tests.support.laws import answer, bag, differs, differs_as_machine_code
from tests.support.queries import Case, cases
from tests.support.query_cases import random_case
from trimtab import evaluate
from trimtab.engine.match.kernels import generated as kernels
from trimtab.engine.match.kernels import thread_kernel
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.run import calling
from trimtab.engine.match.run.calling import _matches_expected
from trimtab.engine.match.run.threads import Batch


@given(cases())
def test_the_matcher_agrees_with_the_reference_however_its_input_is_cut(case: Case) -> None:
    note(case.sql)
    note(f"{case.table.to_pylist()} cut at {case.cuts}")
    found = differs(case)
    if found == "patience":
        reject()
    assert found == ""


@given(cases())
def test_lists_that_are_full_change_nothing(case: Case) -> None:
    note(case.sql)
    note(f"{case.table.to_pylist()} cut at {case.cuts}")

    def room(generated: Generated, batch: Batch) -> int:
        return _matches_expected(generated, batch) if generated.deterministic else 1

    tiny = {"THREADS_AT_FIRST": 1, "NODES_AT_FIRST": 1, "SAVED_AT_FIRST": 1}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in tiny.items():
            patch.setitem(thread_kernel.CONSTANTS, name, value)
        patch.setattr(calling, "_matches_expected", room)
        found = differs(case)
    if found == "patience":
        reject()
    assert found == ""


@given(cases(), st.integers(0, 8), st.data())
def test_rows_out_of_order_within_the_delay_give_the_answer_of_sorted_rows(
    case: Case, delay_s: int, data: st.DataObject
) -> None:
    count = case.table.num_rows
    moments = case.table["ts"].to_pylist()
    waits = data.draw(st.lists(st.integers(0, delay_s), min_size=count, max_size=count))
    # A row that arrives at most `delay_s` after its time comes before all rows that are more than that newer.
    arrives = [moment + datetime.timedelta(seconds=wait) for moment, wait in zip(moments, waits, strict=True)]
    arriving = case.table.take(pa.array(sorted(range(count), key=arrives.__getitem__), pa.int64()))
    times = arriving["ts"].to_pylist()
    in_time = arriving.take(pa.array(sorted(range(count), key=times.__getitem__), pa.int64()))
    note(case.sql)
    note(f"{arriving.to_pylist()} cut at {case.cuts}, {delay_s} s late")
    options: dict[str, Any] = {"event_time": "ts", "delay": f"{delay_s} seconds"}
    try:
        expected = answer(lambda: evaluate(case.sql, {"t": in_time}))
        cut = answer(lambda: evaluate(case.sql, {"t": arriving}, **options, cuts=case.cuts))
        whole = answer(lambda: evaluate(case.sql, {"t": arriving}, **options))
    except TimeoutError:
        reject()
    assert cut == expected
    assert whole == expected


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1))
# Compiling takes seconds, so there are few, and none is made small. A seed makes a whole query from the first example
# on, where Hypothesis would begin with the simplest. `python -m tests.support.laws --machine-code` tries many.
@settings(max_examples=3, phases=[Phase.explicit, Phase.reuse, Phase.generate])
def test_machine_code_of_random_queries_gives_exactly_what_the_interpreter_gives(seed: int) -> None:
    case = random_case(seed)
    note(case.sql)
    found = differs_as_machine_code(case)
    if found == "interpreted":
        reject()
    assert found == ""


MACHINE = pa.table(
    {
        "k": pa.array([n % 3 for n in range(60)], pa.int64()),
        "ts": pa.array([datetime.datetime(2026, 3, 1) + datetime.timedelta(seconds=n // 2) for n in range(60)]),
        "x": pa.array([None if n % 17 == 5 else n * 7 % 11 for n in range(60)], pa.int64()),
        "y": pa.array([float("nan") if n % 23 == 4 else n * 5 % 13 / 2 for n in range(60)], pa.float64()),
        "s": pa.array([None if n % 19 == 3 else "abcd"[n * 3 % 4] for n in range(60)], pa.string()),
    }
)
FIXED_QUERIES = {
    "a run with aggregates": """
        PARTITION BY k ORDER BY ts MEASURES FIRST(A.x) AS a, sum(B.x) AS b, count(*) AS n, avg(y) AS v
        PATTERN (A B+ C) DEFINE B AS B.x >= PREV(B.x), C AS C.x < PREV(C.x)""",
    "all rows, reluctant, overlapping": """
        ORDER BY ts MEASURES CLASSIFIER() AS c, RUNNING sum(x) AS total, MATCH_NUMBER() AS m ALL ROWS PER MATCH
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? (C | D))
        DEFINE B AS x > 2, C AS s = 'c', D AS D.y > avg(A.y) + 3""",
    "an alternation without memory": """
        PARTITION BY k ORDER BY ts MEASURES last(x) AS x, count(B.*) AS b
        PATTERN ((A | B)+ C) DEFINE A AS x > 4, B AS x > 1, C AS s <> 'a'""",
    "a bound in time": """
        PARTITION BY k ORDER BY ts MEASURES min(y) AS low, max(s) AS s, last(ts) AS ts
        PATTERN (A B* TIMEOUT) WITHIN INTERVAL '4' SECOND DEFINE A AS x > 5, B AS x < 5""",
    "functions of numbers": """
        PARTITION BY k ORDER BY ts MEASURES A.x AS a, B.x AS b AFTER MATCH SKIP TO NEXT ROW PATTERN (A B C?)
        DEFINE B AS B.y % A.y < 2 OR B.x % A.x = 1 OR B.x div A.x = 2 OR power(B.y, A.x) < 1 OR ln(A.y - B.y) > 1,
            C AS sqrt(C.y - A.y) < 2 OR exp(C.y - A.y) > 2 OR floor(C.y - A.y) + ceil(B.y - C.y) > 1
                OR cast(C.y - A.y AS bigint) > cast(C.y - B.y AS int)""",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", FIXED_QUERIES.values(), ids=FIXED_QUERIES.keys())
def test_machine_code_and_the_interpreter_give_the_same_answer(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({body})"
    cuts = [7, 7, 20, 41]
    expected = bag(evaluate(sql, {"t": MACHINE}))
    assert expected
    monkeypatch.setattr(kernels, "COMPILE_FROM_ROWS", 0)
    monkeypatch.setattr(kernels, "_COMPILED", {})
    assert bag(evaluate(sql, {"t": MACHINE})) == expected
    assert bag(evaluate(sql, {"t": MACHINE}, cuts=cuts)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("body", FIXED_QUERIES.values(), ids=FIXED_QUERIES.keys())
def test_swapping_between_machine_code_and_the_interpreter_at_any_batch_changes_no_answer(
    body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = f"SELECT * FROM t MATCH_RECOGNIZE ({body})"
    expected = bag(evaluate(sql, {"t": MACHINE}))
    for seed in range(25):
        dice = random.Random(seed)

        def either(source: str, _rows: int, dice: random.Random = dice) -> kernels.Runnable | None:
            return kernels.compiled(source) if dice.random() < 0.5 else None

        monkeypatch.setattr(kernels, "load", either)
        cuts = sorted(dice.choices(range(MACHINE.num_rows), k=dice.randint(1, 8)))
        assert bag(evaluate(sql, {"t": MACHINE}, cuts=cuts)) == expected, f"cut at {cuts}, seed {seed}"
