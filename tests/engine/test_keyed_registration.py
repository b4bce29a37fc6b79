"""Which classes and names can be registered as operators of a user's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import trimtab
from trimtab.engine.keyed.description import KeyedOperator, Logic, Snapshot, registered
from trimtab.errors import OperatorError


class _Open(KeyedOperator):
    output = state = pa.schema([("n", pa.int64())])

    def open(self, snapshot: Snapshot | None) -> Logic:
        raise NotImplementedError


@dataclass(frozen=True)
class Described(_Open):
    """One that can be registered."""


def test_a_name_is_registered_once_but_a_notebook_cell_may_run_twice() -> None:
    def define() -> type[KeyedOperator]:
        @trimtab.operator("once")
        @dataclass(frozen=True)
        class Once(Described):
            pass

        return Once

    assert define() is not define()
    again = registered("ONCE")
    with pytest.raises(OperatorError) as caught:
        trimtab.operator("Once")(Described)
    assert caught.value.code == "operator.name"
    assert "Once" in caught.value.message
    assert registered("once") is again


def _described(**parts: Any) -> Any:
    """A description like `Described`, with some parts changed."""
    return dataclass(frozen=True)(type("Odd", (Described,), parts))


@dataclass(frozen=True)
class _Closed(KeyedOperator):
    output = state = pa.schema([("n", pa.int64())])


@pytest.mark.parametrize(
    ("description", "message"),
    [
        (int, "not a subclass of trimtab.KeyedOperator"),
        (_Open, "not a frozen dataclass"),
        (dataclass(type("Soft", (_Open,), {})), "not a frozen dataclass"),
        (_Closed, "no method open"),
        (_described(output=["n"]), "Odd.output is not a pyarrow schema"),
        (_described(state=None), "Odd.state is not a pyarrow schema"),
        (_described(output=pa.schema([])), "Odd.output has no columns"),
        (_described(output=pa.schema([("n", pa.int64()), ("N", pa.int64())])), "two columns of one name"),
        (_described(output=pa.schema([("__n", pa.int64())])), "a column __n"),
        (_described(columns="ts"), "Odd.columns is not a tuple of names"),
    ],
)
def test_a_class_that_is_not_a_description_is_refused_when_it_is_registered(description: Any, message: str) -> None:
    with pytest.raises(OperatorError) as caught:
        trimtab.operator("odd")(description)
    assert caught.value.code == "operator.description"
    assert message in caught.value.message
    assert registered("odd") is None


@pytest.mark.parametrize("name", ["", "two words", "1st", "a-b", "ä"])
def test_a_name_is_letters_digits_and_underscores(name: str) -> None:
    with pytest.raises(OperatorError) as caught:
        trimtab.operator(name)
    assert caught.value.code == "operator.name"
