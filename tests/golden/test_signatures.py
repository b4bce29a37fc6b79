"""A query has the signature that it had in earlier builds, or a job would refuse its state."""

from __future__ import annotations

import dataclasses
import importlib
import json
import pkgutil
import sys
from enum import Enum
from typing import Any, get_args, get_type_hints

import pytest

from tests.golden.queries import QUERIES, SIGNATURES, Steps, compiled
from trimtab import engine
from trimtab.driver.resuming import fingerprint
from trimtab.engine import signature
from trimtab.engine.columns.order import OrderKey
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.match.ir.expression import Expr
from trimtab.engine.match.ir.pattern import Pattern
from trimtab.engine.match.ir.query import MatchQuery, Skip
from trimtab.engine.operator import Description
from trimtab.engine.selection import Selection
from trimtab.engine.signature import signature_of, signed
from trimtab.engine.windows.assign import ClockWindow, SessionWindow
from trimtab.engine.windows.grouped import GroupCall, GroupQuery
from trimtab.engine.windows.layout import Frame
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import OverCall
from trimtab.errors import OperatorError
from trimtab.rowwise.local import IntakeStep

RISES = "signed-1:e75c0a18620f7770a823b249ef9ccc0ac801d079ad60aedb0df2df70cd60ce2e"
KEPT: dict[str, Any] = json.loads(SIGNATURES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_has_the_signature_of_earlier_builds(name: str) -> None:
    assert compiled(QUERIES[name]).signature == KEPT[name]


def test_the_fingerprint_of_a_signature_is_that_of_earlier_builds() -> None:
    assert fingerprint(compiled(QUERIES["rises"])) == RISES


def test_queries_that_differ_have_other_signatures() -> None:
    signatures = [json.dumps(each, sort_keys=True) for each in KEPT.values()]
    assert len(set(signatures)) == len(signatures)
    for name, old, new in (
        ("rises", "B.x > A.x", "B.x >= A.x"),
        ("rises", "(A B)", "(A B B)"),
        ("rises", "PARTITION BY k", "PARTITION BY s"),
        ("counts", "SUM(x)", "SUM(y)"),
        ("counts", "10 seconds", "9 seconds"),
        ("rolling", "2 PRECEDING", "3 PRECEDING"),
        ("steps", "every => 2", "every => 3"),
        ("plain", "x > 0", "x > 1"),
    ):
        assert fingerprint(compiled(QUERIES[name].replace(old, new))) != fingerprint(compiled(QUERIES[name]))


def test_the_finish_is_no_part_of_the_signature() -> None:
    again = QUERIES["rises"].replace("SELECT *", "SELECT k AS key, a + b AS total")
    assert fingerprint(compiled(again)) == fingerprint(compiled(QUERIES["rises"]))


@pytest.mark.parametrize(
    ("pattern", "is_marked"),
    [
        ("(A | B??)+", True),
        ("(A* B*){2,}", True),
        ("(PERMUTE(A?, B?) | C)*", True),
        ("({- A? -} ^)*", True),
        ("(A | B??){1,9}", False),
        ("(A B?)+", False),
        ("A* B+ C{2,}", False),
        ("(A+ | B){2,}", False),
    ],
)
def test_loops_that_were_compiled_otherwise_in_earlier_builds_are_told_apart(pattern: str, is_marked: bool) -> None:
    """An optional iteration of such a loop has to consume a row, and state of earlier builds has other positions."""
    query = QUERIES["rises"].replace("(A B)", f"({pattern} B A)")
    assert ('"consuming": true' in json.dumps(compiled(query).signature)) is is_marked


def test_names_in_the_code_are_no_part_of_the_signature() -> None:
    @signed("order", renamed={"name": "column"}, without=("note",))
    @dataclasses.dataclass(frozen=True)
    class Renamed:
        name: str
        note: str = "for messages"
        descending: bool = False
        added_later: int = 0

    assert signature_of(Renamed("ts", "another")) == signature_of(OrderKey("ts"))
    assert signature_of(Renamed("ts", descending=True)) == signature_of(OrderKey("ts", descending=True))
    assert signature_of(Renamed("ts", added_later=1)) != signature_of(OrderKey("ts"))


def descriptions(parent: type[Any] = Description) -> list[type]:
    """All classes of the package that describe a step; those of tests and users are left out."""
    for module in pkgutil.walk_packages(engine.__path__, f"{engine.__name__}."):
        importlib.import_module(module.name)
    made: list[type] = [each for each in parent.__subclasses__() if each.__module__.startswith("trimtab.")]
    # A dataclass with slots is made of another class, which nobody uses but which is listed, too.
    own = [each for each in made if vars(sys.modules[each.__module__]).get(each.__name__) is each]
    return [*own, *(other for each in own for other in descriptions(each))]


def parts_of(hint: Any, found: dict[type, None]) -> dict[type, None]:
    """Add the classes that a value of this type may be made of, through the fields of dataclasses."""
    for inner in get_args(hint):
        parts_of(inner, found)
    if isinstance(hint, type) and not get_args(hint) and hint not in found:
        found[hint] = None
        if dataclasses.is_dataclass(hint):
            hints = get_type_hints(hint)
            for field in dataclasses.fields(hint):
                parts_of(hints[field.name], found)
    return found


def parts() -> list[type]:
    found: dict[type, None] = {}
    for description in (*descriptions(), IntakeStep):
        parts_of(description, found)
    return [part for part in found if part.__module__.startswith("trimtab.")]


def test_the_walk_finds_the_parts_of_every_kind_of_operator() -> None:
    kinds = {MatchQuery, OverQuery, GroupQuery, KeyedQuery, Selection}
    windows = {ClockWindow, SessionWindow, Frame, OverCall, GroupCall, OrderKey}
    assert kinds == set(descriptions())
    assert kinds | windows | {*get_args(Expr), *get_args(Pattern), *get_args(Skip)} <= set(parts())


@pytest.mark.parametrize("part", parts(), ids=lambda part: part.__name__)
def test_every_part_of_an_operator_is_signed(part: type) -> None:
    if dataclasses.is_dataclass(part) and not hasattr(part, "signature"):  # a signature of its own comes after `signed`
        assert part in signature._signed
    else:
        assert issubclass(part, Enum) or hasattr(part, "signature")


def test_every_name_in_signatures_is_that_of_one_part() -> None:
    names = [name for part, (name, _) in signature._signed.items() if part.__module__.startswith("trimtab.")]
    assert len(set(names)) == len(names)


def test_arguments_of_an_operator_are_plain_values() -> None:
    assert Steps(3).signature()["arguments"] == {"every": 3}
    with pytest.raises(OperatorError, match="a checkpoint can't hold one of its arguments"):
        Steps(object()).signature()  # type: ignore[arg-type]


def test_a_part_without_a_signed_name_is_refused() -> None:
    @dataclasses.dataclass(frozen=True)
    class New:
        value: int

    with pytest.raises(TypeError, match="New has no signature"):
        signature_of((New(1),))
