"""`trimtab replay`, over small logs that are written by hand: no Spark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from trimtab.cli.main import main
from trimtab.cli.replay_report import report
from trimtab.control.intake import Intake, IntakeObserved
from trimtab.deciding import decision_log
from trimtab.deciding.actions import applied
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.decision_log import Entry
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance, Scale
from trimtab.state.checkpoint import Checkpoint

GROUPS = 8
SKEWED = (400, 10, 300, 10, 200, 10, 100, 10)  # engine 0 of two has the even ones, and so nearly everything


def entries(balance: Balance | None, batches: int = 10, scale: Scale | None = None) -> list[Entry]:
    """What a job with this policy would have logged, on a load that stays skewed."""
    coordinator, placement = Coordinator(balance, scale), Placement.even(2, GROUPS)
    found = []
    for batch in range(batches):
        observed = Observation.of_events(batch, placement, SKEWED)
        decision = coordinator.step(observed)
        found.append(Entry(observed, decision, balance, scale, coordinator.interval_s, batch == 0))
        placement = applied(decision.actions, placement)
    return found


def write(folder: Path, logs: Mapping[str, Sequence[Entry]]) -> str:
    checkpoint = Checkpoint.open(str(folder / "checkpoint"), GROUPS)
    for stream, log in logs.items():
        home = checkpoint.folder.child("streams").child(stream).child("decisions")
        home.make()
        for entry in log:
            decision_log.write(home, entry)
    return checkpoint.folder.location


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["replay", *arguments]) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = json.loads(printed(capsys, *arguments, "--json"))
    return found["streams"]


def rows(text: str) -> list[list[str]]:
    """The cells of the table's lines."""
    return [line.split() for line in text.splitlines() if line.lstrip()[:1].isdigit() and "replayed" not in line]


def test_every_batch_is_a_line_that_the_replay_agrees_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = entries(Balance(planner="flux"))
    text = printed(capsys, write(tmp_path, {"ticks": log}))
    assert "STREAM ticks\npolicy: flux by busy time, above RSTD 15 % for 2 batches, at most once in 3" in text
    lines = rows(text)
    assert [line[:3] for line in lines] == [[str(batch), "1040", "2"] for batch in range(10)]
    assert [float(line[3]) for line in lines] == [round(entry.decision.rstd, 1) for entry in log]
    assert {line[-1] for line in lines} == {"yes"}
    assert "uneven for 1 of 2 batches" in text
    assert "key group moves" in text
    assert "10 batches; replayed, 10 are decided the same" in text


def test_a_log_that_the_replay_disagrees_with_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = entries(Balance(planner="flux"))
    log[4] = replace(log[4], decision=replace(log[4].decision, rstd=log[4].decision.rstd + 1))
    text = printed(capsys, write(tmp_path, {"ticks": log}))
    assert [line[-1] for line in rows(text)] == ["yes"] * 4 + ["NO"] + ["yes"] * 5
    assert "replayed, 9 are decided the same" in text


def test_where_the_beginning_of_a_run_is_missing_a_difference_is_not_reported() -> None:
    found = report(entries(Balance(planner="flux"))[3:])
    assert False not in [line.same for line in found.lines]
    assert None in [line.same for line in found.lines]


def test_another_policy_is_shown_beside_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = write(tmp_path, {"ticks": entries(Balance(planner="flux"))})
    streams = as_json(capsys, location, "--balance", "none")
    assert list(streams) == ["ticks"]
    ticks, other = streams["ticks"], streams["ticks"]["other"]
    assert ticks["summary"]["moved"] > 0
    assert (other["balance"], other["summary"]["moved"]) == (None, 0)
    assert other["summary"]["above"] == 10
    assert other["summary"]["mean_rstd"] > 2 * ticks["summary"]["mean_rstd"] > 0
    assert {step["reason"] for step in other["batches"]} == {"nothing is balanced"}
    text = printed(capsys, location, "--balance", "none")
    assert "beside it: nothing is balanced" in text
    assert "beside it  mean RSTD 92.3 %, 10 above 15 %, 0 key groups moved" in text


def test_a_number_alone_changes_the_policy_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = write(tmp_path, {"ticks": entries(Balance(planner="flux", min_gain=0.2))})
    ticks = as_json(capsys, location, "--patience", "4", "--max-moves", "1")["ticks"]
    assert ticks["other"]["balance"] == Balance(planner="flux", min_gain=0.2, patience=4, max_moves=1).as_json()
    first = [next(step["moved"] for step in run["batches"] if step["moved"]) for run in (ticks, ticks["other"])]
    assert first[1] == 1 <= first[0]
    began = [next(n for n, step in enumerate(run["batches"]) if step["moved"]) for run in (ticks, ticks["other"])]
    assert began[1] == began[0] + 2


def test_only_the_last_batches_are_shown_but_all_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    location = write(tmp_path, {"ticks": entries(Balance(planner="flux"))})
    whole = as_json(capsys, location)["ticks"]["batches"]
    assert as_json(capsys, location, "--last", "3")["ticks"]["batches"] == whole[-3:]


def test_streams_have_their_own_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = {"orders": entries(Balance(planner="lptf"), 2), "ticks": entries(Balance(planner="flux"), 3)}
    location = write(tmp_path, logs)
    assert {name: len(one["batches"]) for name, one in as_json(capsys, location).items()} == {"orders": 2, "ticks": 3}
    assert list(as_json(capsys, location, "--stream", "orders")) == ["orders"]
    assert "2 batches; replayed, 2" in printed(capsys, location)


def test_engines_that_are_added_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    scale = Scale(max_engines=4, low=20.0, target=40.0, high=50.0, cool_down_batches=1, cool_down_s=0.0)
    location = write(tmp_path, {"ticks": entries(Balance(), 8, scale)})
    text = printed(capsys, location)
    assert "1 to 4 engines" in text
    assert {line[2] for line in rows(text)} > {"2"}
    assert "engine more" in text or "engines more" in text


@pytest.mark.parametrize(
    ("arguments", "code", "hint"),
    [
        (["--stream", "tocks"], "state.version", "it has orders, ticks"),
        (["--stream", "orders"], "state.log", "a job with balance=None keeps none"),
        (["--balance", "mlip"], "job.balance", "there are milp, flux"),
        (["--patience", "0"], "job.balance", "it must be 1 or more"),
        (["--balance", "none", "--max-rstd", "3"], "input.value", "leave one of them"),
    ],
)
def test_mistakes_say_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str, hint: str
) -> None:
    location = write(tmp_path, {"ticks": entries(Balance(planner="flux"), 2), "orders": []})
    assert main(["replay", location, *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error[{code}]: ")
    assert hint in error


def test_without_a_log_there_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err.startswith("error[state.missing]: there is no checkpoint at ")
    location = write(tmp_path, {"ticks": []})
    assert main(["replay", location]) == 1
    assert capsys.readouterr().err.startswith("error[state.log]: the checkpoint has no log of a coordinator")


def test_a_damaged_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    location = write(tmp_path, {"ticks": entries(Balance(planner="flux"), 2)})
    (Path(location) / "streams" / "ticks" / "decisions" / "000000000001.arrow").write_bytes(b"nothing")
    assert main(["replay", location]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error[state.log]: ")
    assert "000000000001.arrow" in error


def limited(batches: int = 4) -> list[Entry]:
    """What a job would have logged that reads a stream itself, with batches that take too long."""
    intake = Intake(batch_s=0.5, min_rows=100)
    coordinator, placement = Coordinator(None, intake=intake), Placement.even(2, GROUPS)
    found = []
    for batch in range(batches):
        state = coordinator.intake_state
        assert state is not None
        seen = IntakeObserved(rows=state.limit_rows, batch_s=1.0, backlog_rows=7_000 - batch)
        observed = replace(Observation.of_events(batch, placement, SKEWED), intake=seen)
        decision = coordinator.step(observed)
        found.append(Entry(observed, decision, None, None, coordinator.interval_s, batch == 0, None, intake, state))
    return found


def test_the_intake_of_a_stream_that_trimtab_reads_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries_ = limited()
    shown = printed(capsys, write(tmp_path, {"ticks": entries_}))
    assert "intake: a batch time of 500 ms" in shown
    last = entries_[-1].decision.intake
    assert last is not None
    row = next(line for line in shown.splitlines() if line.split()[:1] == ["3"])
    assert "1.0 s" in row
    assert f"{last.rows:,}" in row
    assert "6,997" in row
    batches = as_json(capsys, str(tmp_path / "checkpoint"))["ticks"]["batches"]
    assert [each["intake"]["rows"] for each in batches] == [
        each.decision.intake and each.decision.intake.rows for each in entries_
    ]
    assert [each["backlog_rows"] for each in batches] == [7_000, 6_999, 6_998, 6_997]


def test_a_log_without_an_intake_has_no_columns_for_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, write(tmp_path, {"ticks": entries(None, 2)}))
    assert "intake" not in shown
    assert "limit" not in shown
