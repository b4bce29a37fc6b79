"""The coordinator's log: what was written is what is read, and errors name the damaged file."""

from __future__ import annotations

import json
import pathlib
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trimtab.control.cost_estimate import CostEstimate
from trimtab.control.intake import Intake, IntakeLimit, IntakeObserved
from trimtab.control.intake_controller import IntakeState
from trimtab.deciding import decision_log
from trimtab.deciding.actions import AddEngines, DrainEngine, DropEngines, Move, SetIntake
from trimtab.deciding.balancer import Balancer
from trimtab.deciding.coordinator import Coordinator, Decision
from trimtab.deciding.decision_log import Entry, from_bytes, to_bytes
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Measure, Scale
from trimtab.errors import StateError
from trimtab.planning.registry import POLICIES
from trimtab.state.files import Folder

numbers = st.floats(0, 1e9, allow_nan=False)
action_lists = st.lists(
    st.one_of(
        st.builds(AddEngines, st.integers(1, 9)),
        st.builds(DrainEngine, st.integers(0, 9)),
        st.builds(Move, st.dictionaries(st.integers(0, 9), st.integers(0, 9), min_size=1)),
        st.builds(DropEngines, st.integers(1, 9)),
        st.builds(SetIntake, st.integers(1, 9)),
    ),
    max_size=4,
).map(tuple)


intakes = st.builds(Intake, latency_s=st.none() | st.floats(0.1, 9), gains=st.none() | st.just((0.5, -1.0)))
intakes_observed = st.builds(
    IntakeObserved, rows=st.integers(0, 9), batch_s=numbers, bytes=st.none() | st.integers(0, 9)
)
limits = st.builds(
    IntakeLimit, rows=st.integers(1, 9), held=st.just("batch_s"), reference=numbers, measure=st.none() | numbers
)
intake_states = st.builds(
    IntakeState, st.integers(1, 9), measurement=numbers, estimate=st.none() | st.just(CostEstimate.of(7, 1.5))
)


@st.composite
def entries(draw: st.DrawFn) -> Entry:
    groups, engines = draw(st.integers(1, 12)), draw(st.integers(1, 5))

    def column(size: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(draw(st.lists(st.integers(0, 2**62), min_size=size, max_size=size)), np.int64)

    observed = Observation(
        batch=draw(st.integers(0, 10**11)),
        span_s=draw(numbers),
        batch_s=draw(numbers),
        placement=Placement(engines, tuple(int(owner) % engines for owner in column(groups))),
        events=column(groups),
        busy_ns=column(groups),
        state_bytes=column(groups),
        engine_ns=column(engines),
        executors=tuple(draw(st.lists(st.text(max_size=5), min_size=engines, max_size=engines))),
        intake=draw(st.none() | intakes_observed),
    )
    return Entry(
        observed=observed,
        decision=Decision(
            batch=observed.batch,
            rstd=draw(numbers),
            least_rstd=draw(numbers),
            load_distance=draw(numbers),
            utilisation=draw(numbers),
            planned_rstd=draw(st.none() | numbers),
            reason=draw(st.text()),
            actions=draw(action_lists),
            intake=draw(st.none() | limits),
        ),
        balance=draw(
            st.none() | st.builds(Balance, planner=st.sampled_from([*POLICIES]), measure=st.sampled_from(Measure))
        ),
        scale=draw(st.none() | st.builds(Scale, max_engines=st.integers(1, 9))),
        interval_s=draw(numbers),
        is_first=draw(st.booleans()),
        split=draw(st.none() | st.sampled_from(["pkg", "consistent"])),
        intake=draw(st.none() | intakes),
        intake_state=draw(st.none() | intake_states),
    )


def an_entry(batch: int = 0) -> Entry:
    balance = Balance(planner="flux", measure="events", patience=1)
    observed = replace(Observation.of_events(0, Placement.even(2, 4), [90, 10, 60, 10]), batch=batch)
    return Entry(observed, Coordinator(balance).step(observed), balance, Scale(max_engines=3), 1.0, is_first=True)


@settings(max_examples=40)
@given(entries())
def test_what_is_written_is_what_is_read(entry: Entry) -> None:
    found = from_bytes(to_bytes(entry))
    assert replace(found, observed=entry.observed) == entry
    for name in ("events", "busy_ns", "state_bytes", "engine_ns"):
        assert getattr(found.observed, name).tolist() == getattr(entry.observed, name).tolist()
    for name in ("batch", "span_s", "batch_s", "placement", "executors", "intake"):
        assert getattr(found.observed, name) == getattr(entry.observed, name)


def test_entries_come_back_in_order_and_old_ones_go(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "KEPT", 3)
    folder = Folder(str(tmp_path / "log"))
    assert list(decision_log.read(folder)) == [], "no folder, no log"
    folder.make()
    for batch in (0, 1, 2, 3, 10, 4):
        decision_log.write(folder, an_entry(batch))
    (tmp_path / "log" / "notes.txt").write_text("not an entry, and not read as one")
    assert [entry.observed.batch for entry in decision_log.read(folder)] == [2, 3, 4, 10]


WHOLE = to_bytes(an_entry())


@pytest.mark.parametrize("content", [b"", b"ARROW1", WHOLE[: len(WHOLE) // 2], WHOLE[:-1], b"{}", WHOLE[40:]])
def test_an_error_names_the_damaged_file(content: bytes, tmp_path: pathlib.Path) -> None:
    folder = Folder(str(tmp_path))
    decision_log.write(folder, an_entry(7))
    folder.write("000000000008.arrow", content)
    found = decision_log.read(folder)
    assert next(found).observed.batch == 7
    with pytest.raises(StateError, match=r"000000000008\.arrow") as raised:
        next(found)
    assert raised.value.code == "state.log"
    assert "nothing but a replay needs it" in raised.value.hint


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("format", 99),
        ("decision", None),
        ("decision", {"actions": []}),
        ("decision", {"actions": [{"add": 1, "drop": 1}]}),
        ("balance", {"planner": "best"}),
        ("balance", {"mood": "good"}),
        ("scale", {"max_engines": 0}),
        ("engine_ns", "many"),
        ("hosts", 3),
        ("intake", {"settings": {"batch_s": -1.0}}),
        ("intake", {"observed": {"mood": "good"}}),
        ("intake", {"state": {}}),
    ],
)
def test_content_that_makes_no_sense_is_an_error(name: str, content: Any, tmp_path: pathlib.Path) -> None:
    table = pa.ipc.open_file(pa.py_buffer(WHOLE)).read_all()
    about = json.loads(table.schema.metadata[b"trimtab"]) | {name: content}
    table = table.replace_schema_metadata({b"trimtab": json.dumps(about).encode()})
    with pa.ipc.new_file(tmp_path / "000000000001.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(StateError) as raised:
        list(decision_log.read(Folder(str(tmp_path))))
    assert raised.value.code == "state.log"


def test_damaged_files_and_a_folder_that_is_gone_do_not_stop_the_balancer(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Folder(str(tmp_path / "log"))
    folder.make()
    folder.write("000000000000.arrow", WHOLE[:100])
    (tmp_path / "log" / ".000000000001.arrow-under-way").write_bytes(WHOLE[:50])
    entry = an_entry()
    Coordinator(entry.balance).warm()  # the balancer's thread compiles nothing
    balancer = Balancer(Coordinator(entry.balance), folder)
    balancer.consider(entry.observed)
    changed = balancer.changed(entry.observed.placement)
    balancer.stop()
    assert changed != entry.observed.placement
    assert [entry.decision.actions for entry in decision_log.read(folder)] == [entry.decision.actions]
    balancer = Balancer(Coordinator(entry.balance), folder)
    for path in (tmp_path / "log").iterdir():
        path.unlink()
    (tmp_path / "log").rmdir()
    balancer.consider(entry.observed)
    assert balancer.changed(entry.observed.placement) == changed
    balancer.stop()
    assert "batch 0 is missing in the coordinator's log" in caplog.text
