"""What belongs to the installation is enough for any window and any plan: nothing is left to compile."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest

from trimtab import evaluate
from trimtab.cli.main import main
from trimtab.cli.prebuilding import PARTS, made_up_rows
from trimtab.deciding.coordinator import Coordinator
from trimtab.deciding.observation import Observation
from trimtab.deciding.placement import Placement
from trimtab.deciding.policy import Balance
from trimtab.machine_code import shelf
from trimtab.machine_code.missing import Missing, if_missing
from trimtab.machine_code.shelf import Folder
from trimtab.worker.row_hash import arrival_hash
from trimtab_lab.workloads.clusters import synthetic_cluster

pytestmark = pytest.mark.slow  # they compile, unless `trimtab warm` was run

QUERIES = {
    "grouped-windows": (
        "SELECT s, count(*) AS c, avg(x) AS a, sum(d) AS t, max(at) AS m FROM t GROUP BY s, window(ts, '3 seconds')",
        "SELECT n, approx_percentile(x, 0.9) AS p, stddev(n) AS v FROM t"
        " GROUP BY n, window(ts, '9 seconds', '2 seconds')",
        "SELECT b, min_by(s, x) AS s, collect_list(n) AS l FROM t GROUP BY b, session_window(ts, '4 seconds')",
    ),
    "sliding-windows": (
        "SELECT sum(x) OVER (PARTITION BY s ORDER BY ts ROWS BETWEEN 3 PRECEDING AND CURRENT ROW) AS v FROM t",
        "SELECT max(n) OVER (PARTITION BY b ORDER BY ts RANGE BETWEEN INTERVAL 9 SECONDS PRECEDING AND CURRENT ROW)"
        " AS v, avg(d) OVER (PARTITION BY b ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS w FROM t",
    ),
}


@pytest.mark.parametrize("part", QUERIES)
def test_windows_of_an_installation_have_nothing_left_to_compile(part: str) -> None:
    PARTS[part]()
    rows = made_up_rows(100)
    with if_missing(Missing.REFUSE):
        for sql, cuts in itertools.product(QUERIES[part], ([], [10], [20, 20, 55])):
            evaluate(sql, {"t": rows}, event_time="ts", delay="3 seconds", cuts=cuts)


def test_hashing_rows_has_nothing_left_to_compile() -> None:
    PARTS["tier-one"]()
    rows = made_up_rows(100)
    with if_missing(Missing.REFUSE):
        arrival_hash(dict(zip(rows.column_names, rows.columns, strict=True)), rows.num_rows)


def test_the_planner_of_an_installation_has_nothing_left_to_compile() -> None:
    PARTS["optimising-planner"]()
    dice = np.random.default_rng(5)
    coordinator = Coordinator(Balance(measure="events", patience=1, period_batches=1))
    with if_missing(Missing.REFUSE):
        for batch in range(12):
            events = (1_000 * dice.pareto(1.2, 128)).astype(int).tolist()
            coordinator.step(Observation.of_events(batch, Placement.even(4, 128), events))
        for seed in range(3):
            coordinator._planner(synthetic_cluster(8, 200, varies=30.0, seed=seed, max_moves=12))


def test_the_command_builds_a_part_that_workers_then_load(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "built")
    monkeypatch.setattr(shelf, "installed", lambda: folder)
    assert main(["warm", "patterns"]) == 0
    assert "patterns: compiled" in capsys.readouterr().out
    assert folder.has("trimtab.engine.columns.groups.counting_order")


def test_an_unknown_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["warm", "widgets"]) == 1
    assert "there is no part 'widgets'" in capsys.readouterr().err
