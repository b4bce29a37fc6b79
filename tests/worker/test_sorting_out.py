"""What an engine sets aside of its rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tests.support.tier_one_cases import KEY_GROUPS, SCHEMA, intake_for, rows_of
from trimtab.engine.columns.watermark import BatchTime, TimeRule
from trimtab.worker.accounts import Accounts
from trimtab.worker.intake import SOURCE_PARTITION
from trimtab.worker.orders import QUARANTINE, QUERY, REASON, EnginePlan
from trimtab.worker.set_aside import placed
from trimtab.worker.sorting_out import SortingOut
from trimtab.worker.tier_one import ColumnTierOne


def test_rows_that_no_query_can_take_say_where_in_the_source_they_were() -> None:
    rows, intake = rows_of(60), intake_for("one", SOURCE_PARTITION)
    tier_one = ColumnTierOne(intake, SCHEMA, KEY_GROUPS, keep_original=True)
    sent = tier_one.sent(placed(rows, "t:3", pa.array(range(100, 160), pa.int64())))
    plan = EnginePlan(intake, {}, sent.schema, KEY_GROUPS, 1, keep_original=True, event_time="ts")
    engine = SortingOut(plan, BatchTime(TimeRule(0)), Accounts(KEY_GROUPS, np.empty(0, np.int64)))
    engine.routes(sent.to_batches())
    bad = pa.concat_tables(engine.asides[QUARANTINE])
    assert set(bad[REASON].to_pylist()) == {"ts is null", "k is null, and rows are keyed by it"}
    assert bad.column_names == [*SCHEMA.names, "source_partition", "source_position", "source_value", QUERY, REASON]
    assert set(bad["source_partition"].to_pylist()) == {"t:3"}
    assert bad["source_value"].null_count == bad.num_rows
    places = [position - 100 for position in bad["source_position"].to_pylist()]
    assert repr(bad.select(SCHEMA.names).to_pylist()) == repr(rows.take(places).to_pylist())
