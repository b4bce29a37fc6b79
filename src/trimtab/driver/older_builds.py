"""Reads checkpoints of builds in which batches had no plans yet."""

from __future__ import annotations

import json
from dataclasses import replace

from trimtab.deciding.placement import Placement
from trimtab.driver.batch_plan import BatchPlan, Setup
from trimtab.driver.happenings import BatchArrived
from trimtab.driver.machine import Driver
from trimtab.state.files import Folder


def begun_by_older_build(
    driver: Driver, home: Folder, offsets: Folder, setup: Setup, clock_s: float
) -> BatchPlan | None:
    """The plan of a batch that such a build had begun, as far as its files show.

    `offsets` is the folder where Spark records which rows a batch has. The placement was recorded if it had changed;
    queries and delay were not, so those of this start are used.
    """
    placements = home.child("placements")
    if not placements.exists() or not offsets.exists(str(driver.next_of_spark)):
        return None
    name = f"{driver.next_number:012d}.json"
    kept = Placement.from_json(json.loads(placements.read(name))) if placements.exists(name) else driver.placement
    if kept is None:
        return None
    placement = kept if any(query.is_split for query in setup.queries.values()) else replace(kept, spread=())
    return driver.new_plan(BatchArrived(driver.next_of_spark, False, clock_s, setup, placement))
