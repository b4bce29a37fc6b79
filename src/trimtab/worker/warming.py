"""What the compile process does for a job: everything that its engines will do, on made-up values.

Whatever is called here is compiled, or found to be there already.
"""

from __future__ import annotations

from trimtab.engine.operator import Moment
from trimtab.engine.warming import made_up, warm
from trimtab.engine.windows.grouped import GroupQuery
from trimtab.worker.engine import operands, ready_query
from trimtab.worker.orders import EnginePlan


def warm_engines(plan: EnginePlan) -> None:
    """Let every query advance over made-up rows."""
    for reading in plan.intake.readings:
        operator = ready_query(plan.queries[reading.query], plan.max_threads).operator
        if operator is not None:
            schema = operands(reading, plan.schema.empty_table()).schema
            warm(operator, schema)
            if isinstance(operator, GroupQuery) and reading in plan.intake.split_readings:
                _, state = operator.advance(made_up(schema), {}, Moment())
                operator.merge([state, state], schema)
