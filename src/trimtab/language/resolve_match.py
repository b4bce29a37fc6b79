"""MATCH_RECOGNIZE, resolved: its clauses checked against each other and against the columns that it reads."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from trimtab.engine.match.ir.expression import Side
from trimtab.engine.match.ir.pattern import Pattern
from trimtab.engine.match.ir.query import Rows, Skip, SkipPastLast, SkipTo, SkipToNext
from trimtab.language.dialect import MatchRecognize, SkipClause, WithinClause
from trimtab.language.intervals import MICROSECOND, amount, interval_length
from trimtab.language.keys import Ordering, order_columns, partition_columns
from trimtab.language.marks import ResolvedExpression
from trimtab.language.merge import Context
from trimtab.language.mistakes import node_start
from trimtab.language.patterns import ParsedPattern, parse_pattern
from trimtab.language.relation import Definition
from trimtab.language.resolve_expression import resolve_expression
from trimtab.language.scope import Scope, make_scope
from trimtab.rowwise.types import is_time


@dataclass(frozen=True, slots=True)
class ResolvedMatch:
    """The clauses, with labels by number; `conditions` are by label, in the order in which they are written.

    `aliases` are the names by which SELECTs around it may qualify its columns.
    """

    scope: Scope
    pattern: Pattern
    conditions: Mapping[int, ResolvedExpression]
    measures: tuple[tuple[str, ResolvedExpression], ...]
    rows: Rows
    skip: Skip
    partition: tuple[Definition, ...]
    order: tuple[Ordering, ...]
    within_us: int | None
    aliases: frozenset[str]


def resolve_match(context: Context, node: MatchRecognize, patterns: Mapping[int, str]) -> ResolvedMatch:
    """Resolve the clauses; `patterns` are the texts that were cut out, by offset. Raises QueryError."""
    parsed = _pattern(context, node, patterns)
    scope = make_scope(context, parsed.labels, node.args.get("subset") or ())
    rows = Rows(node.args["rows"].name) if node.args.get("rows") else Rows.ONE
    if rows is Rows.ALL_WITH_UNMATCHED and parsed.exclusion:
        message = "a pattern with {- -} can't be shown WITH UNMATCHED ROWS"
        hint = "use SHOW EMPTY MATCHES or OMIT EMPTY MATCHES"
        raise context.error("query.exclusion-unmatched", message, parsed.exclusion, hint)
    partition = partition_columns(context, node.args.get("partition_by") or ())
    order = order_columns(context, node.args["order"].expressions if node.args.get("order") else (), node)
    alias = node.args.get("alias")
    return ResolvedMatch(
        scope=scope,
        pattern=parsed.pattern,
        conditions=_conditions(scope, node.args.get("define") or ()),
        measures=_measures(scope, rows, node.args.get("measures") or ()),
        rows=rows,
        skip=_skip(scope, node.args.get("skip")),
        partition=partition,
        order=order,
        within_us=_within_us(context, node, parsed, order),
        aliases=frozenset({alias.name.lower()}) if alias and alias.name else context.relation.aliases,
    )


def _pattern(context: Context, node: MatchRecognize, patterns: Mapping[int, str]) -> ParsedPattern:
    place = node.args.get("pattern")
    if place is None:
        message = "MATCH_RECOGNIZE needs a PATTERN"
        raise context.error("query.pattern-empty", message, node_start(node), "as in PATTERN (A B+)")
    start = int(place.name)
    return parse_pattern(context.sql, start, patterns.get(start, ""))


def _conditions(scope: Scope, defines: Sequence[exp.Alias]) -> dict[int, ResolvedExpression]:
    found: dict[int, ResolvedExpression] = {}
    for define in defines:
        name = define.args["alias"]
        label = scope.number(name)
        if label is None:
            message = f"{name.name} is defined but not in the pattern"
            raise scope.context.error("query.define-unused", message, name, scope.hint(name.name))
        if label in found:
            message = f"{name.name} is defined twice"
            raise scope.context.error("query.define-duplicate", message, name, "join them with AND")
        found[label] = resolve_expression(scope, define.this, label=label)
    return found


def _measures(scope: Scope, rows: Rows, measures: Sequence[exp.Alias]) -> tuple[tuple[str, ResolvedExpression], ...]:
    found: dict[str, tuple[str, ResolvedExpression]] = {}
    for each in measures:
        alias = each.args.get("alias")
        if alias is None:
            raise scope.context.error("query.measure-name", "a measure needs a name", each.this, "add AS name")
        if alias.name.lower() in found:
            message = f"there are two measures named {alias.name}"
            raise scope.context.error("query.measure-name", message, alias, "rename one of them")
        found[alias.name.lower()] = alias.name, resolve_expression(scope, each.this, one_row=rows is Rows.ONE)
    return tuple(found.values())


def _skip(scope: Scope, node: SkipClause | None) -> Skip:
    if node is None or node.args["kind"] == "PAST LAST ROW":
        return SkipPastLast()
    if node.args["kind"] == "TO NEXT ROW":
        return SkipToNext()
    labels = scope.find(node.this)
    if labels is None:
        name = node.this.name
        message = f"the pattern has no variable {name} to skip to"
        raise scope.context.error("query.skip-target", message, node.this, scope.hint(name))
    return SkipTo(Side[node.args["kind"]], labels, node.this.name)


def _within_us(context: Context, node: MatchRecognize, parsed: ParsedPattern, order: Sequence[Ordering]) -> int | None:
    """The bound of WITHIN in microseconds, None without the clause."""
    length = node.args.get("within")
    if length is None:
        if parsed.timeout:
            message = "TIMEOUT needs a WITHIN: it means that this time has passed"
            hint = "add WITHIN INTERVAL '1' HOUR after the pattern"
            raise context.error("query.timeout-within", message, parsed.timeout, hint)
        return None
    span = _span(context, length)
    if span <= datetime.timedelta():
        raise context.error("query.within-positive", "WITHIN needs a length of time above zero", length)
    if not order or not is_time(order[0].definition.type) or order[0].descending:
        at = order[0].written if order else length
        message = "WITHIN needs the rows in order of time"
        raise context.error("query.within-time", message, at, "ORDER BY a timestamp or date first")
    return span // MICROSECOND


def _span(context: Context, length: WithinClause) -> datetime.timedelta:
    value, unit = length.this, length.args.get("unit")
    is_number = isinstance(value, exp.Literal) and not value.is_string
    if unit is None and is_number:
        message = f"WITHIN needs a length of time, found the number {value.name}"
        hint = f"write the unit, for example WITHIN {value.name} SECONDS"
        raise context.error("query.within-unit", message, value, hint)
    span = interval_length(value) if unit is None else None
    if unit is not None and is_number:
        span = amount(value.name, unit.name)
    elif unit is not None and isinstance(value, exp.Neg) and isinstance(value.this, exp.Literal):
        span = amount(f"-{value.this.name}", unit.name)
    if span is None:
        hint = "in weeks, days, hours, minutes or seconds, as in INTERVAL '1' HOUR"
        raise context.error("query.within-unit", "WITHIN needs a length of time that is always the same", length, hint)
    return span
