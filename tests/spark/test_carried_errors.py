"""Errors that tasks raise, on their way through Spark's text."""

from __future__ import annotations

import pytest

from trimtab.errors import InputError
from trimtab.spark.carried_errors import carrying, unpacking


def test_an_error_of_trimtabs_own_arrives_as_it_was() -> None:
    with pytest.raises(RuntimeError, match="offset 3 is gone") as carried, carrying():
        raise InputError("source.lost", "offset 3 is gone", "keep it")
    text = f'Job aborted:\nTraceback (most recent call last):\n  File "x"\n{carried.value}\n\tat o.a.Spark'
    with pytest.raises(InputError) as raised, unpacking():
        raise ValueError(text)
    error = raised.value
    assert (error.code, error.message, error.hint) == ("source.lost", "offset 3 is gone", "keep it")


def test_other_errors_stay_what_they_are_and_without_one_nothing_happens() -> None:
    with unpacking(), carrying():
        pass
    with pytest.raises(KeyError, match="k"), unpacking(), carrying():
        raise KeyError("k")
