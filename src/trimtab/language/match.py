"""MATCH_RECOGNIZE: check its clauses against each other and build what the engine runs."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.expression import Const, Expr, Side
from trimtab.engine.query import (
    MatchQuery,
    OrderKey,
    Rows,
    Skip,
    SkipPastLast,
    SkipTo,
    SkipToNext,
)
from trimtab.language import oracle
from trimtab.language.context import Context
from trimtab.language.dialect import MatchRecognize
from trimtab.language.hoist import Hoister
from trimtab.language.intervals import amount, interval_length
from trimtab.language.lower import Lowerer
from trimtab.language.measures import Slots, measure_definitions
from trimtab.language.patterns import ParsedPattern, parse_pattern
from trimtab.language.relation import Definition, Relation, column
from trimtab.language.resolve import Resolver
from trimtab.language.scope import Scope, make_scope
from trimtab.language.types import is_time

_SECOND = datetime.timedelta(seconds=1)
_MICROSECOND = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Matched:
    """The operator, and its output as a relation over the engine's columns."""

    operator: MatchQuery
    output: Relation


def compile_match(context: Context, node: MatchRecognize, patterns: Mapping[int, str]) -> Matched:
    """Compile the clause; `patterns` are the texts that were cut out, by offset."""
    parsed = _pattern(context, node, patterns)
    scope = make_scope(context, parsed.labels, node.args["subset"])
    rows = Rows(node.args["rows"].name) if node.args.get("rows") else Rows.ONE
    if rows is Rows.ALL_WITH_UNMATCHED and parsed.exclusion():
        message = "a pattern with {- -} can't be shown WITH UNMATCHED ROWS"
        hint = "use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES"
        raise context.error("query.exclusion-unmatched", message, _pattern_span(node, patterns), hint)
    partition = _columns(context, node.args.get("partition_by") or [], "PARTITION BY")
    order = _order(context, node)
    time_column = _time_column(context, order)
    within = _within(context, node, parsed, patterns, time_column)
    conditions = _conditions(scope, node.args["define"])
    slots = Slots()
    lowerer = Lowerer(Hoister(scope))
    resolver = Resolver(context, scope, lowerer.aggregate, one_row=rows is Rows.ONE)
    measures = measure_definitions(scope, resolver, node.args["measures"], slots)
    kept = _kept(context, rows, partition, [key for key, _ in order])
    ...
