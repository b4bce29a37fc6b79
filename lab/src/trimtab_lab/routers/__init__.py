"""The routers of the papers: which worker takes a message.

Every router has `route(keys) -> workers` over whole columns, keeps its own counts, and is seeded and picklable.
"""

from trimtab_lab.routers.bounded_consistent_hash import BoundedConsistentHash
from trimtab_lab.routers.consistent_grouping import ConsistentGrouping
from trimtab_lab.routers.counting import CountingRouter
from trimtab_lab.routers.hot_choices import DChoices, WChoices
from trimtab_lab.routers.key_grouping import KeyGrouping
from trimtab_lab.routers.partial_key_grouping import PartialKeyGrouping
from trimtab_lab.routers.random_choices import RandomChoices
from trimtab_lab.routers.shuffle_grouping import ShuffleGrouping
from trimtab_lab.routers.two_choices import TwoChoices

__all__ = [
    "ROUTERS",
    "BoundedConsistentHash",
    "ConsistentGrouping",
    "DChoices",
    "KeyGrouping",
    "PartialKeyGrouping",
    "RandomChoices",
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
