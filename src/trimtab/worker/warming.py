"""What the compile process does for a job: it runs everything that the job's engines will run, on made-up values.

Whatever is called here is compiled, unless it already is.
"""

from __future__ import annotations

from trimtab.worker.orders import EnginePlan
from trimtab.worker.ready import operands, ready_query


def warm_engines(plan: EnginePlan) -> None:
    """Let every query advance over made-up rows."""
    for reading in plan.intake.readings:
        ready = ready_query(plan.queries[reading.query], plan.max_threads)
        ready.operator.warm(operands(reading, plan.schema.empty_table()).schema)
