"""The state after a batch is bounded, resumable, and made of tables that a file can hold."""

import io
import itertools
import pickle
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest

from tests.support.query_cases import random_case
from trimtab.engine.columns.order import in_order
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.run.matcher import Matcher
from trimtab.engine.operator import Moment, State
from trimtab.errors import ThreadLimitError
from trimtab.language.compile import compile_query
from trimtab.language.compiled import operator_of, scalar

SCHEMA = pa.schema([("k", pa.int64()), ("ts", pa.timestamp("us")), ("x", pa.int64())])
V_SHAPE = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts
    MEASURES FIRST(S.x) AS top, LAST(D.x) AS bottom, COUNT(D.*) AS fell
    PATTERN (S D+ U) DEFINE D AS D.x < PREV(D.x), U AS U.x > PREV(U.x))"""


def rows(keys: list[int], xs: list[int], start: int = 0) -> pa.Table:
    times = np.arange(start, start + len(xs), dtype=np.int64)
    return pa.table([pa.array(keys), pa.array(times, pa.timestamp("us")), pa.array(xs)], schema=SCHEMA)


def run(sql: str, batches: list[pa.Table], **options: int) -> tuple[list[pa.Table], State]:
    query = compile_query(sql, {"t": SCHEMA})
    operator = operator_of(query, **options)
    state: State = {}
    outputs = []
    for batch in batches:
        output, state = operator.advance(query.intake.run(batch), state, Moment())
        outputs.append(output)
    return outputs, state


def through_a_file(state: State) -> State:
    """The state as another process would read it."""
    read: dict[str, pa.Table] = {}
    for name, table in state.items():
        sink = io.BytesIO()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        read[name] = pa.ipc.open_file(io.BytesIO(sink.getvalue())).read_all()
    return read


def test_state_does_not_grow_with_the_length_of_a_match() -> None:
    sizes = []
    for length in (10, 1000):
        falling = rows([1] * length, list(range(length, 0, -1)))
        _, state = run(V_SHAPE, [falling])
        sizes.append({name: table.num_rows for name, table in state.items()})
    assert sizes[0] == sizes[1]
    assert sizes[0]["rows"] <= 3


def test_a_key_whose_matches_are_decided_has_no_state() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
        PATTERN (A B) DEFINE A AS A.x = 1, B AS B.x = 2)"""
    _, state = run(sql, [rows([1, 1, 2, 3, 3, 4], [1, 2, 1, 1, 3, 0])])
    assert state["keys"].column("k").to_pylist() == [2]  # only key 2 waits, for its B


def test_a_match_is_output_as_soon_as_nothing_can_change_it() -> None:
    outputs, _ = run(V_SHAPE, [rows([1, 1], [5, 3]), rows([1], [4], start=2), rows([1], [9], start=3)])
    assert [output.num_rows for output in outputs] == [0, 1, 0]


def test_idle_keys_have_deadlines() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
        PATTERN (A B* TIMEOUT) WITHIN INTERVAL '10' SECONDS DEFINE A AS A.x = 1, B AS B.x = 0)"""
    query = compile_query(sql, {"t": SCHEMA}, event_time="ts")
    operator = operator_of(query)
    batch = query.intake.run(rows([7], [1]))
    output, state = operator.advance(batch, {}, Moment(watermark_us=1))
    assert output.num_rows == 0
    assert state["keys"].column("deadline_us").to_pylist() == [10_000_000]
    output, state = operator.advance(batch.slice(0, 0), state, Moment(watermark_us=9_999_999))
    assert output.num_rows == 0
    output, state = operator.advance(batch.slice(0, 0), state, Moment(watermark_us=10_000_000))
    assert output.num_rows == 1
    assert state["keys"].num_rows == 0


def test_too_many_partial_matches_of_a_key_are_a_counted_error() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (PARTITION BY k ORDER BY ts MEASURES A.x AS x
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B* C) DEFINE C AS C.x > A.x)"""
    keys, xs = [1, 2, 3] * 20, [0] * 60
    keys += [4]
    xs += [0]
    with pytest.raises(ThreadLimitError) as caught:
        run(sql, [rows(keys, xs)], max_threads=10)
    assert (caught.value.breaches, caught.value.limit, caught.value.code) == (3, 10, "match.threads")
    assert "k=1" in str(caught.value)
    assert "max_threads" in str(caught.value)


def test_a_key_below_the_limit_is_no_error() -> None:
    sql = """SELECT * FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES A.x AS x
        AFTER MATCH SKIP TO NEXT ROW PATTERN (A B*? C) DEFINE C AS C.x > A.x)"""
    outputs, _ = run(sql, [rows([1] * 9, [0] * 8 + [1])], max_threads=20)
    assert outputs[0].num_rows == 8


@pytest.mark.parametrize("seed", [*range(60), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(60, 150))])
def test_state_survives_a_file_between_any_two_batches(seed: int) -> None:
    case = random_case(seed)
    query = compile_query(case.sql, {"t": case.table.schema})
    whole = query.intake.run(case.table)
    pattern = query.operator
    assert isinstance(pattern, MatchQuery)
    order = pattern.order
    sequence = in_order([whole.column(key.column) for key in order], order)
    if sequence is not None:  # without a watermark rows must come in order
        whole = whole.take(pa.array(sequence))
    edges = [0, *sorted(case.cuts), case.table.num_rows]

    def outcome(cuts: list[int], *, by_file: bool) -> list[str]:
        matcher = Matcher(pattern, scalar=scalar)
        state: State = {}
        found: list[Mapping[str, object]] = []
        try:
            for low, high in itertools.pairwise(cuts):
                closing = high == cuts[-1] and low == cuts[-2]
                output, state = matcher.advance(whole.slice(low, high - low), state, Moment(closing=closing))
                found += output.to_pylist()
                if by_file:
                    state = through_a_file(state)
                    matcher = pickle.loads(pickle.dumps(matcher))
        except Exception as error:
            return [type(error).__name__]
        return sorted(map(repr, found))

    assert outcome([0, case.table.num_rows], by_file=False) == outcome(edges, by_file=True)
