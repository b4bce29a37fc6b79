"""Values that hardly need decoding, and halving, by which bad ones are found."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from trimtab.sources.values import BytesValues, StringValues, decode_halving


def test_bytes_are_given_as_they_are_and_missing_ones_are_null() -> None:
    values = [b"\xff", None, b""]
    decoded = BytesValues().decode(pa.array(values))
    assert (decoded.table["value"].to_pylist(), decoded.reasons) == (values, {})


def test_a_string_that_is_no_text_is_not_decoded() -> None:
    decoded = StringValues().decode(pa.array(["ä".encode(), b"\xff", None, b""]))
    assert (decoded.table["value"].to_pylist(), decoded.reasons) == (["ä", None, ""], {1: "it isn't text in UTF-8"})


def test_no_values_give_no_rows() -> None:
    assert StringValues().decode(pa.array([], pa.binary())).table == StringValues().schema.empty_table()


@pytest.mark.parametrize("bad", [[], [0], [999], [17, 18, 600]])
def test_few_bad_values_cost_few_repetitions(bad: list[int]) -> None:
    schema, calls = pa.schema({"n": pa.int64()}), []

    def whole(values: pa.Array) -> pa.Table:
        calls.append(len(values))
        if set(bad) & set(values.to_pylist()):
            raise ValueError("it is bad")
        return pa.table([values], schema=schema)

    decoded = decode_halving(pa.array(range(1000)), whole, schema)
    assert decoded.table["n"].to_pylist() == [n for n in range(1000) if n not in bad]
    assert decoded.reasons == dict.fromkeys(bad, "it is bad")
    assert len(calls) <= 1 + 2 * len(bad) * math.ceil(math.log2(1000))
