"""Hypothesis strategies for random MATCH_RECOGNIZE queries and tables; see `query_cases`."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from hypothesis import strategies as st

from tests.support.query_cases import SCHEMA, Case, a_case, a_query, a_table

__all__ = ["SCHEMA", "Case", "DrawnChoices", "cases", "sql_texts", "tables"]


class DrawnChoices:
    """Decisions that Hypothesis takes, so that it can simplify them."""

    def __init__(self, draw: Callable[[st.SearchStrategy[int]], int]) -> None:
        self._draw = draw

    def below(self, limit: int) -> int:
        """A number from 0 to `limit` - 1."""
        return self._draw(st.integers(0, limit - 1))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A valid query with a table and cuts; it may still fail with a `MatchError`."""
    return a_case(DrawnChoices(draw))


@st.composite
def sql_texts(draw: st.DrawFn) -> str:
    """The text of a valid query over the table `t` of `SCHEMA`."""
    return a_query(DrawnChoices(draw))


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of `SCHEMA`."""
    return a_table(DrawnChoices(draw))
