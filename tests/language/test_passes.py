"""Each pass of the language on queries of its own: `fixtures/<pass>.txt` has the query, then what the pass makes of it.

A file begins with the tables that its queries read, one a line. A fixture is a title, options of `compile_query`, the
query, and what the pass gives, as `tests.support.shown_passes` writes it, or the whole text of the error that this
pass raises:

    ticks(ts timestamp, price double)

    ## A sentence that says what the fixture shows
    event_time: ts
    SELECT price FROM ticks
    ---
    table ticks
    ...
"""

from __future__ import annotations

import inspect
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

import tests.golden.queries  # noqa: F401 - the table function `golden_steps` is registered there
from tests.support.shown_passes import shown
from trimtab.errors import QueryError
from trimtab.language.compile import PASSES, compile_query, source_of
from trimtab.language.parse import QueryText
from trimtab.rowwise.schemas import parse_schema

FOLDER = pathlib.Path(__file__).with_name("fixtures")
BY_NAME: dict[str, Callable[[Any], Any]] = {each.__name__: each for each in PASSES}


@dataclass(frozen=True)
class Fixture:
    """A query, and what a pass makes of it."""

    place: str
    name: str
    text: QueryText
    expected: str


def read(path: pathlib.Path) -> list[Fixture]:
    """The fixtures of a file."""
    head, *parts = path.read_text(encoding="utf-8").split("\n## ")
    tables = dict(parse_schema(line) for line in head.splitlines() if line)
    return [_fixture(path.stem, part, tables) for part in parts]


def _fixture(name: str, part: str, tables: dict[str, pa.Schema]) -> Fixture:
    title, _, rest = part.partition("\n")
    query, _, expected = rest.partition("\n---\n")
    options: dict[str, Any] = {}
    while query.startswith(("event_time: ", "fold_labels: ")):
        option, _, query = query.partition("\n")
        key, value = option.split(": ")
        options[key] = value if key == "event_time" else value == "yes"
    return Fixture(f"{name}: {title}", name, QueryText(query, tables, **options), expected.strip())


FIXTURES = [fixture for path in sorted(FOLDER.glob("*.txt")) for fixture in read(path)]


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.place)
def test_a_pass_gives_what_its_fixture_says(fixture: Fixture) -> None:
    value: Any = fixture.text
    for each in PASSES[: PASSES.index(BY_NAME[fixture.name])]:
        value = each(value)
    try:
        found = shown(BY_NAME[fixture.name](value))
    except QueryError as error:
        found = str(error)
    assert found == fixture.expected


def test_every_pass_has_fixtures() -> None:
    counts = {name: sum(each.name == name for each in FIXTURES) for name in BY_NAME}
    assert {each.name for each in FIXTURES} <= set(BY_NAME)
    assert min(counts.values()) >= 6, counts
    titles = [each.place for each in FIXTURES]
    assert sorted(titles) == sorted(set(titles))


def test_each_pass_takes_what_the_one_before_it_gives() -> None:
    signatures = [inspect.signature(each) for each in PASSES]
    takes = [next(iter(each.parameters.values())).annotation for each in signatures]
    gives = [each.return_annotation for each in signatures]
    assert takes == ["QueryText", *gives[:-1]]
    assert gives[-1] == "Query"


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.place)
def test_a_pass_doesnt_change_its_input(fixture: Fixture) -> None:
    value: Any = fixture.text
    for each in PASSES:
        before = None if isinstance(value, QueryText) else shown(value)
        try:
            given = each(value)
        except QueryError:
            return
        assert before is None or shown(value) == before
        assert shown(each(value)) == shown(given)
        value = given


def trees_in(value: Any) -> Iterator[exp.Expr]:
    """The syntax trees inside a value, at any depth."""
    if isinstance(value, exp.Expr):
        yield value
        return
    parts: Iterable[Any] = ()
    if isinstance(value, Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    elif is_dataclass(value):
        parts = [getattr(value, each.name) for each in fields(value)]
    for part in parts:
        yield from trees_in(part)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.place)
def test_trees_carry_no_values_of_ours(fixture: Fixture) -> None:
    value: Any = fixture.text
    for each in PASSES:
        try:
            value = each(value)
        except QueryError:
            return
        for node in (node for tree in trees_in(value) for node in tree.walk()):
            flat = [part for arg in node.args.values() for part in (arg if isinstance(arg, list) else [arg])]
            others = [part for part in flat if not isinstance(part, exp.Expr)]
            assert not [part for part in others if type(part).__module__.startswith("trimtab")], repr(node)


def outcome(source: Callable[[], str]) -> str:
    """The source, or the error's text."""
    try:
        return source()
    except QueryError as error:
        return str(error)


@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda each: each.place)
def test_the_source_is_known_from_the_text_alone(fixture: Fixture) -> None:
    sql, tables, event_time = fixture.text.sql, fixture.text.tables, fixture.text.event_time
    compiled = outcome(lambda: compile_query(sql, tables, event_time=event_time).source)
    found = outcome(lambda: source_of(sql, tables))
    # The source is known even if a later pass finds a mistake.
    assert found == compiled or (found in tables and compiled not in tables)
