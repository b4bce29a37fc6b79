"""What the compile process does for a job: everything that its engines will do, on made-up values.

Whatever is called here is compiled, or found to be there already.
"""

from __future__ import annotations

from trimtab.worker.orders import EnginePlan
from trimtab.worker.ready import operands, ready_query


def warm_engines(plan: EnginePlan) -> None:
    """Let every query advance over made-up rows."""
    for reading in plan.intake.readings:
        ready = ready_query(plan.queries[reading.query], plan.max_threads)
        ready.operator.warm(operands(reading, plan.schema.empty_table()).schema)
