"""Per-event routers: which worker takes a message.

Every router has `route(keys) -> workers` over whole columns, keeps its own counts, and is seeded and picklable.
"""

from trimtab.routing.bounded_consistent_hash import BoundedConsistentHash
from trimtab.routing.consistent_grouping import ConsistentGrouping
from trimtab.routing.counting import CountingRouter
from trimtab.routing.delegation import Move
from trimtab.routing.hot_choices import DChoices, WChoices
from trimtab.routing.key_grouping import KeyGrouping
from trimtab.routing.partial_key_grouping import PartialKeyGrouping
from trimtab.routing.random_choices import RandomChoices
from trimtab.routing.router import Router
from trimtab.routing.shuffle_grouping import ShuffleGrouping
from trimtab.routing.two_choices import TwoChoices

__all__ = [
    "ROUTERS",
    "BoundedConsistentHash",
    "ConsistentGrouping",
    "CountingRouter",
    "DChoices",
    "KeyGrouping",
    "Move",
    "PartialKeyGrouping",
    "RandomChoices",
    "Router",
    "ShuffleGrouping",
    "TwoChoices",
    "WChoices",
]

ROUTERS: dict[str, type[CountingRouter]] = {
    "KG": KeyGrouping,
    "SG": ShuffleGrouping,
    "PKG": PartialKeyGrouping,
    "PoTC": TwoChoices,
    "PoRC": RandomChoices,
    "CH": BoundedConsistentHash,
    "CG": ConsistentGrouping,
    "D-C": DChoices,
    "W-C": WChoices,
}
"""All of them, by the name that the papers use."""
