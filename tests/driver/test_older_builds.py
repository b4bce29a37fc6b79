"""Plans and begun batches of builds that knew less: a job goes on from them."""

from __future__ import annotations

import json
import pathlib

from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, QuerySetup, Setup
from trimtab.driver.machine import Driver
from trimtab.driver.next_version import Identity
from trimtab.driver.older_builds import begun_by_older_build
from trimtab.engine.columns.watermark import NO_SILENCE, StreamTime, TimeRule
from trimtab.engine.operator import MAX_THREADS
from trimtab.state.files import Folder
from trimtab.state.manifest import seal

SETUP = Setup("ts", TimeRule(5), {"q": QuerySetup("SELECT 1", "f0")})
EVEN = Placement.even(2, 8)


def test_a_plan_of_the_first_format_has_one_partition_and_no_limits() -> None:
    body = {
        "incarnation": "c0ffee",
        "number": 7,
        "spark_batch": 6,
        "closing": False,
        "clock_s": 12.5,
        "watermark_us": 100,
        "previous_watermark_us": 90,
        "placement": EVEN.as_json(),
        "setup": {"event_time": "ts", "delay_us": 5, "queries": {"q": ["SELECT 1", "f0", False]}},
    }
    plan = BatchPlan.from_bytes(seal(1, body))
    assert (plan.number, plan.spark_batch, plan.placement) == (7, 6, EVEN)
    assert plan.time.before == StreamTime(100, {})
    assert (plan.time.silence, plan.time.reported_us, plan.time.latest_us) == (NO_SILENCE, 90, None)
    assert (plan.setup, plan.setup.max_threads) == (SETUP, MAX_THREADS)


def test_a_setup_is_read_as_it_was_written() -> None:
    setup = Setup("ts", TimeRule(5, ("a", "b"), 2), SETUP.queries, "part", 3, 9, keep_original=True)
    assert Setup.from_json(json.loads(json.dumps(setup.as_json()))) == setup


def test_a_batch_that_was_begun_without_a_plan_is_found_by_its_placement(tmp_path: pathlib.Path) -> None:
    home, offsets = Folder(str(tmp_path / "home")), Folder(str(tmp_path / "offsets"))
    driver = Driver(Identity("job", "t", "c0ffee", 8))
    placements = home.child("placements")
    placements.make()
    offsets.make()
    moved = EVEN.moved({0: 1})
    placements.write("000000000000.json", json.dumps(moved.as_json()).encode())
    assert begun_by_older_build(driver, home, offsets, SETUP, 12.5) is None, "Spark has no batch to repeat"
    offsets.write("0", b"v1")
    plan = begun_by_older_build(driver, home, offsets, SETUP, 12.5)
    assert plan is not None
    assert (plan.number, plan.spark_batch, plan.clock_s) == (0, 0, 12.5)
    assert plan.placement == moved
