"""The routers of the papers, beside those that trimtab has itself: which worker takes a message."""

from trimtab.routing import ConsistentGrouping, CountingRouter, RandomChoices
from trimtab_lab.routers.bounded_consistent_hash import BoundedConsistentHash
from trimtab_lab.routers.hot_choices import DChoices, WChoices
from trimtab_lab.routers.key_grouping import KeyGrouping
from trimtab_lab.routers.partial_key_grouping import PartialKeyGrouping
from trimtab_lab.routers.shuffle_grouping import ShuffleGrouping
from trimtab_lab.routers.two_choices import TwoChoices

__all__ = [
    "ROUTERS",
    "BoundedConsistentHash",
    "DChoices",
    "KeyGrouping",
    "PartialKeyGrouping",
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
