"""A user's own operator in FROM, resolved: `hot(TABLE(readings) PARTITION BY sensor ORDER BY ts, limit => 95)`."""

from __future__ import annotations

import datetime
import types
import typing
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from decimal import Decimal
from typing import Any

from sqlglot import exp

from trimtab.engine.keyed.description import KeyedOperator, arguments
from trimtab.errors import QueryError
from trimtab.language import oracle
from trimtab.language.dialect import TableArgument, TableFunction
from trimtab.language.intervals import interval_length
from trimtab.language.keys import Ordering, order_columns, partition_columns
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean, listing, node_start, placed
from trimtab.language.relation import Definition, column
from trimtab.language.unnest import called_operator, table_argument

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
    str: "a text",
    datetime.timedelta: "an interval",
    datetime.datetime: "a timestamp",
    datetime.date: "a date",
    types.NoneType: "null",
}
_UNFIT = object()


@dataclass(frozen=True, slots=True)
class ResolvedFunction:
    """The operator with its arguments; `columns` are the columns that it reads, by the names that it uses.

    `alias` is the name by which SELECTs around it may qualify its columns.
    """

    name: str
    description: KeyedOperator
    partition: tuple[Definition, ...]
    order: tuple[Ordering, ...]
    columns: tuple[str, ...]
    alias: str


def resolve_function(context: Context, node: TableFunction) -> ResolvedFunction:
    """What a call in FROM means, over the context's relation. Raises QueryError."""
    description = _description(context, node, called_operator(context.sql, node))
    table = table_argument(context.sql, node)
    order = order_columns(context, table.args.get("order") or (), node)
    keys = {each.name: each for each in partition_columns(context, table.args.get("partition_by") or ())}
    alias = node.args.get("alias")
    resolved = ResolvedFunction(
        name=node.name,
        description=description,
        partition=tuple(keys.values()),
        order=order,
        columns=_columns(context, node, description, table),
        alias=(alias.name if alias is not None and alias.name else node.name).lower(),
    )
    _check_output(context, node, description, table)
    return resolved


def _columns(
    context: Context, node: TableFunction, description: KeyedOperator, table: TableArgument
) -> tuple[str, ...]:
    """The names of the columns that the logic reads, after a check that they exist."""
    names = context.schema.names
    wanted = tuple(names) if description.columns is None else description.columns
    for name in wanted:
        try:
            context.relation.resolve(placed(column(name), table.this))
        except QueryError as error:
            if description.columns is None or error.code != "query.column":
                raise
            message = f"{node.name} looks at a column {name}: {error.message}"
            hint = f"the columns are {listing(names)}; rename one in TABLE(SELECT ...)"
            raise context.error("query.column", message, table.this, hint) from None
    return tuple(wanted)


def _check_output(context: Context, node: TableFunction, description: KeyedOperator, table: TableArgument) -> None:
    """The output has the keys and then the operator's own columns: no two may have the same name."""
    own = {name.lower() for name in description.output.names}
    for at in table.args.get("partition_by") or ():
        if at.name.lower() in own:
            hint = "give the key another name in TABLE(SELECT ...)"
            raise context.error("query.column", f"{node.name} gives a column {at.name} of its own", at, hint)


def _description(context: Context, node: TableFunction, description: type[KeyedOperator]) -> KeyedOperator:
    """The description with the arguments of a call.

    Raises QueryError `query.argument` for an argument that is missing, unknown, given twice, not constant or ill-typed.
    """
    fields = {field.name: field for field in arguments(description)}
    hints = _annotations(description)
    values: dict[str, Any] = {}
    for name, given in _given(context, node, list(fields)):
        values[name] = _value(context, node, name, given, hints.get(name))
    for field in fields.values():
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        if field.name not in values and not has_default:
            message, hint = f"{node.name} needs {field.name}", f"add {field.name} => ..."
            raise context.error("query.argument", message, node_start(node), hint)
    try:
        return description(**values)
    except Exception as error:  # the class may check anything in __post_init__
        message = f"{node.name} can't be made with these arguments: {type(error).__name__}: {error}"
        at = [each for each in node.expressions if not isinstance(each, TableArgument)]
        raise context.error("query.argument", message, at[0] if len(at) == 1 else node_start(node)) from error


def _given(context: Context, node: TableFunction, names: Sequence[str]) -> list[tuple[str, exp.Expr]]:
    """The arguments by the names of their fields: in SQL the first ones may go by position, the others by name."""
    by_name = {name.lower(): name for name in names}
    takes = f"it takes {', '.join(names)}" if names else "it takes only a table"
    found: dict[str, exp.Expr] = {}
    named = False
    for each in node.expressions:
        if isinstance(each, TableArgument):
            continue
        if isinstance(each, exp.Kwarg):
            named = True
            name, value = by_name.get(each.this.name.lower()), each.expression
            if name is None:
                hint = did_you_mean(each.this.name, names, otherwise=takes)
                raise context.error("query.argument", f"{node.name} has no argument {each.this.name}", each.this, hint)
        elif named:
            message = "an argument without a name can't come after one with a name"
            raise context.error("query.argument", message, each, takes)
        elif isinstance(each, exp.Column):
            raise _not_constant(context, each)
        elif len(found) == len(names):
            raise context.error("query.argument", f"{node.name} has no more arguments", each, takes)
        else:
            name, value = names[len(found)], each
        if name in found:
            raise context.error("query.argument", f"{name} is given twice", each)
        found[name] = value
    return list(found.items())


def _not_constant(context: Context, at: exp.Expr) -> Exception:
    hint = "put several columns in parentheses: PARTITION BY (a, b)"
    return context.error("query.argument", "an argument must be a constant", at, hint)


def _value(context: Context, node: TableFunction, name: str, given: exp.Expr, wanted: Any) -> Any:
    if (column := given.find(exp.Column)) is not None:
        raise _not_constant(context, column)
    value: Any = interval_length(given)
    if value is None:
        value, _ = oracle.constant(context.sql, given)
    fitted = _fitted(value, wanted)
    if fitted is _UNFIT:
        kinds = " or ".join(dict.fromkeys(_KINDS[kind] for kind in _alternatives(wanted)))
        raise context.error("query.argument", f"{name} of {node.name} must be {kinds}", given)
    return fitted


def _fitted(value: Any, wanted: Any) -> Any:
    """The value as one of the wanted types; unchanged where SQL has no such types."""
    kinds = _alternatives(wanted)
    if not kinds or type(value) in kinds:
        return value
    if isinstance(value, bool):
        return _UNFIT
    if float in kinds and isinstance(value, int | Decimal):
        return float(value)
    if Decimal in kinds and isinstance(value, int):
        return Decimal(value)
    if int in kinds and isinstance(value, Decimal) and value == int(value):
        return int(value)
    return _UNFIT


def _alternatives(wanted: Any) -> list[type]:
    """The types that an annotation allows, empty if SQL doesn't have one of them."""
    union = typing.get_origin(wanted) in (typing.Union, types.UnionType)
    kinds = list(typing.get_args(wanted)) if union else [wanted]
    return kinds if all(kind in _KINDS for kind in kinds) else []


def _annotations(description: type[KeyedOperator]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(description)
    except Exception:  # an annotation that only a type checker can resolve: then nothing is checked
        return {field.name: field.type for field in arguments(description)}
