"""`trimtab tune`, over logs of jobs whose plant is known: no Spark."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_replay_command import entries, write
from trimtab.cli.main import main
from trimtab.control.intake import Intake, IntakeObserved
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.replay import agrees, replay
from trimtab.deciding.tuning import FEWEST, samples_of, tune
from trimtab.errors import BalanceError

FIXED_S, A_ROW_S = 0.2, 2e-6
PLACEMENT = Placement.even(2, 8)


def log(intake: Intake, batches: int, *, noise: float = 0.02, memory: float = 0.0) -> list[Entry]:
    """The log of a job with a large backlog: `batch_s = FIXED_S + A_ROW_S rows`, and `memory` of the time before."""
    coordinator, dice = Coordinator(None, intake=intake), random.Random(1)
    found: list[Entry] = []
    deviation = 0.0
    for batch in range(batches):
        state = coordinator.intake_state
        assert state is not None
        cost_s = A_ROW_S * state.limit_rows
        deviation = memory * deviation + (1 - memory) * cost_s
        batch_s = (FIXED_S + deviation) * dice.gauss(1.0, noise)
        seen = IntakeObserved(rows=state.limit_rows, batch_s=batch_s, limit_rows=state.limit_rows, backlog_rows=10**9)
        observed = replace(Observation.of_events(batch, PLACEMENT, [1] * 8), intake=seen)
        decision = coordinator.step(observed)
        found.append(Entry(observed, decision, None, None, 1.0, batch == 0, None, intake, state))
    return found


EXCITED = Intake(batch_s=0.5, excite=80)


def test_the_model_of_an_excited_job_is_found_with_its_gains() -> None:
    found = tune(log(EXCITED, 120), settling_batches=6)
    assert found.samples.is_open
    assert len(found.samples.rows) == 80
    assert found.samples.variation > 0.1
    assert found.found.model.a == pytest.approx(0.0, abs=0.15)
    assert found.found.model.steady_state_gain == pytest.approx(A_ROW_S, rel=0.05)
    assert found.found.model.delay == 0
    assert found.without_rows == pytest.approx(FIXED_S, rel=0.1)
    assert found.found.r_squared > 0.9
    assert found.design.settled_after is not None
    assert found.design.settled_after <= 12


def test_a_plant_that_remembers_is_recognised() -> None:
    model = tune(log(EXCITED, 120, noise=0.005, memory=0.6), settling_batches=6).found.model
    assert model.a == pytest.approx(0.6, abs=0.1)
    assert model.b == pytest.approx(0.4 * A_ROW_S, rel=0.2)


def test_the_gains_that_are_found_hold_the_reference() -> None:
    gains = tune(log(EXCITED, 120), settling_batches=6).design.gains
    seen = [each.observed.intake for each in log(Intake(batch_s=0.5, gains=gains), 60)]
    assert all(abs(each.batch_s - 0.5) < 0.1 for each in seen[15:] if each is not None)


def test_a_log_that_is_excited_is_replayed_and_goes_back_to_control() -> None:
    found = log(EXCITED, 120)
    assert all(agrees(one) for one in replay(found))
    limits = [each.decision.intake.rows for each in found if each.decision.intake is not None]
    level = limits[18]
    assert all(0.7 * level - 1 <= rows <= 1.3 * level + 1 for rows in limits[20:100])
    assert len(set(limits[20:100])) > 20
    last = found[-1].decision.intake
    assert last is not None
    assert "its reference" in last.reason


def test_excitation_ends_when_batches_become_slow() -> None:
    coordinator = Coordinator(None, intake=EXCITED)
    for batch in range(40):
        state = coordinator.intake_state
        assert state is not None
        batch_s = (0.2 + 2e-6 * state.limit_rows) * (4.0 if batch >= 30 else 1.0)
        seen = IntakeObserved(rows=state.limit_rows, batch_s=batch_s, limit_rows=state.limit_rows, backlog_rows=10**9)
        coordinator.step(replace(Observation.of_events(batch, PLACEMENT, [1] * 8), intake=seen))
    assert coordinator.intake_state is not None
    assert coordinator.intake_state.excited == EXCITED.excite
    assert coordinator.limit is not None
    assert "at random" not in coordinator.limit.reason


def test_a_log_of_normal_operation_is_fitted_too_and_says_so() -> None:
    found = samples_of(log(Intake(batch_s=0.5), 60, noise=0.05))
    assert not found.is_open
    assert found.batches[0] == 3, "the first ones also compile"
    plain = [
        replace(each, observed=replace(each.observed, intake=replace(each.observed.intake, is_plain=number < 20)))
        for number, each in enumerate(log(Intake(batch_s=0.5), 60))
        if each.observed.intake is not None
    ]
    assert samples_of(plain).batches[0] == 20
    assert tune(log(Intake(batch_s=0.5), 60), settling_batches=6).found.model.steady_state_gain == pytest.approx(
        A_ROW_S, rel=0.4
    )


def test_a_log_that_tells_too_little_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steady = Intake(batch_s=0.5, min_rows=50_000, max_rows=50_000)
    with pytest.raises(BalanceError, match="have nearly equally many rows") as error:
        tune(log(steady, 60), settling_batches=6)
    assert "excite" in error.value.hint
    with pytest.raises(BalanceError, match=f"{FEWEST} are needed"):
        tune(log(EXCITED, 15), settling_batches=6)
    assert main(["tune", write(tmp_path, {"ticks": entries(None, 2)})]) == 1
    assert capsys.readouterr().err.startswith("error[control.data]: nothing limits the intake of its streams")


def test_what_was_found_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = write(tmp_path, {"ticks": log(EXCITED, 120), "other": entries(None, 2)})
    assert main(["tune", location]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("STREAM ticks: holds a batch time of 500 ms\nbatches   20 to 99, of ")
    assert "(set at random, the loop open)" in shown
    assert "[job.intake] gains = [" in shown
    assert main(["tune", location, "--json", "--settling", "10"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)["streams"]["ticks"]
    assert found["is_open"]
    assert found["model"]["b"] == pytest.approx(A_ROW_S, rel=0.1)
    assert found["spectral_radius"] < 1
