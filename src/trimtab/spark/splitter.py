"""The splitter: which engine a row goes to, as a Spark SQL expression over its slot.

The placement changes from batch to batch, and is in the expression as an array literal: generated code reads that
through a reference. A plain number would be written into the code, and each batch would wait for a compiler.
`tests/support/plain_splitter.py` is the same in Python.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from trimtab.deciding.placement import SHARES
from trimtab.keyed_state import GROUP_SHIFT
from trimtab.worker.intake import ROUTE, SLOT, Intake
from trimtab.worker.orders import Orders


class Splitter:
    """Finds the engines of one stream's rows."""

    def __init__(self, intake: Intake, spark: SparkSession) -> None:
        self._intake, self._spark = intake, spark
        self._known: tuple[str, Any] = ("", None)

    def engine(self, orders: Orders) -> Any:
        """The engine of a row, as a Java column; made anew only when the placement changes.

        Spelled out as SQL, which is one call: built of functions, it took 10 ms of a batch in which a key group moved.
        """
        place, owners = f"shiftright({SLOT}, {GROUP_SHIFT}) + 1", orders.owner.tolist()
        if self._intake.split_readings:
            place = self._or_share(place, orders)
            owners += orders.shares.ravel().tolist()
        text = f"element_at(from_json('{json.dumps(owners)}', 'array<int>'), cast({place} as int))"
        if self._known[0] != text:
            jvm: Any = self._spark._jvm
            self._known = (text, jvm.org.apache.spark.sql.functions.expr(text))
        return self._known[1]

    def _or_share(self, place: str, orders: Orders) -> str:
        """The place of a row's engine in the table: of its key's share if its key is spread, else of its group."""
        # An array even if it is empty: the first spread key would otherwise mean other code, and a wait for it.
        number = f"array_position(from_json('{json.dumps(orders.spread.tolist())}', 'array<bigint>'), {SLOT})"
        arrivals = sorted({reading.arrival for reading in self._intake.split_readings})
        hashed = arrivals[0] if len(arrivals) == 1 else f"xxhash64({', '.join(arrivals)})"
        is_spread = f"{number} > 0"
        if len(self._intake.routes) > 1:
            routes = sorted({reading.route for reading in self._intake.split_readings})
            is_spread = f"{ROUTE} in ({', '.join(map(str, routes))}) and {is_spread}"
        first = len(orders.owner) + 1  # the shares come after the groups
        share = f"({number} - 1) * {SHARES} + pmod({hashed}, {SHARES}) + {first}"
        return f"case when {is_spread} then {share} else {place} end"
