"""What the compile process does for a job: everything that its engines and its coordinator will do, on made-up values.

Whatever is called here is compiled, or found to be there already.
"""

from __future__ import annotations

from trimtab.engine.warming import warm
from trimtab.runtime.balance import Balance
from trimtab.runtime.coordinator import Coordinator
from trimtab.runtime.engine_task import operands, ready_query
from trimtab.runtime.orders import EnginePlan


def warm_engines(plan: EnginePlan) -> None:
    """Let every query advance over made-up rows."""
    for reading in plan.intake.readings:
        operator = ready_query(plan.queries[reading.query], plan.max_threads).operator
        if operator is not None:
            warm(operator, operands(reading, plan.schema.empty_table()).schema)


def warm_planner(policy: tuple[Balance | None, str | None]) -> None:
    """Let a coordinator's planner decide on made-up loads; `policy` is the balance and how hot keys are split."""
    balance, split = policy
    Coordinator(balance, split=split).warm()
