"""Per-event routers: which worker takes a message.

Every router has `route(keys) -> workers` over whole columns, keeps its own counts, and is seeded and picklable. The
ones that the papers compare with are in `trimtab_lab.routers`.
"""

from trimtab.routing.consistent_grouping import ConsistentGrouping
from trimtab.routing.counting import CountingRouter
from trimtab.routing.delegation import Move
from trimtab.routing.random_choices import RandomChoices
from trimtab.routing.router import Router

__all__ = ["ConsistentGrouping", "CountingRouter", "Move", "RandomChoices", "Router"]
