"""What the compile process does for a job: everything that its engines and its coordinator will do, on made-up values.

Whatever is called here is compiled, or found to be there already.
"""

from __future__ import annotations

from trimtab.engine.operator import Moment
from trimtab.engine.warming import made_up, warm
from trimtab.engine.windows.grouped import GroupQuery
from trimtab.runtime.balance import Balance
from trimtab.runtime.coordinator import Coordinator
from trimtab.runtime.engine_task import operands, ready_query
from trimtab.runtime.orders import EnginePlan


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


def warm_planner(policy: tuple[Balance | None, str | None]) -> None:
    """Let a coordinator's planner decide on made-up loads; `policy` is the balance and how hot keys are split."""
    balance, split = policy
    Coordinator(balance, split=split).warm()
