"""The splitter: which engine a row goes to, as a Spark SQL expression over its slot.

The placement changes from batch to batch, and is in the expression as an array literal: generated code reads that
through a reference. A plain number would be written into the code, and each batch would wait for a compiler.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from trimtab.deciding.placement import SHARES, Placement
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.intake import ROUTE, SLOT, Intake


class Splitter:
    """Finds the engines of one stream's rows."""

    def __init__(self, intake: Intake, spark: SparkSession) -> None:
        self._intake, self._spark = intake, spark
        self._table: tuple[Placement | None, Any] = (None, None)

    def engine(self, placement: Placement) -> Any:
        """The engine of a row's key group, as a Java column; made anew only when the placement changes.

        Spelled out as SQL, which is one call: built of functions, it took 10 ms of a batch in which a key group moved.
        """
        known, column = self._table
        if known != placement:
            place = f"shiftright({SLOT}, {GROUP_SHIFT}) + 1"
            owners = list(placement.owner)
            if self._intake.split_readings:
                place = self._or_share(place, placement)
                owners += [engine for each in placement.spread for engine in each.engines]
            text = f"element_at(from_json('{json.dumps(owners)}', 'array<int>'), cast({place} as int))"
            jvm: Any = self._spark._jvm
            column = jvm.org.apache.spark.sql.functions.expr(text)
            self._table = (placement, column)
        return column

    def _or_share(self, place: str, placement: Placement) -> str:
        """The place of a row's engine in the table: of its key's share if its key is spread, else of its group."""
        slots = [each.slot for each in placement.spread]
        # An array even if it is empty: the first spread key would otherwise mean other code, and a wait for it.
        number = f"array_position(from_json('{json.dumps(slots)}', 'array<bigint>'), {SLOT})"
        arrivals = sorted({reading.arrival for reading in self._intake.split_readings})
        hashed = arrivals[0] if len(arrivals) == 1 else f"xxhash64({', '.join(arrivals)})"
        share = f"pmod({hashed}, {SHARES})"
        is_spread = f"{number} > 0"
        if len(self._intake.routes) > 1:
            routes = sorted({reading.route for reading in self._intake.split_readings})
            is_spread = f"{ROUTE} in ({', '.join(map(str, routes))}) and {is_spread}"
        first = len(placement.owner) + 1  # the shares come after the groups
        return f"case when {is_spread} then ({number} - 1) * {SHARES} + {share} + {first} else {place} end"
