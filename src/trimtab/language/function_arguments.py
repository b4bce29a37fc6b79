"""The arguments of a table function: from constants in SQL to the fields of a description."""

from __future__ import annotations

import dataclasses
import datetime
import types
import typing
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlglot import exp

from trimtab.engine.keyed.description import KeyedOperator, arguments
from trimtab.language import oracle
from trimtab.language.dialect import TableArgument, TableFunction
from trimtab.language.intervals import interval_length
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean, node_start

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


def describe(context: Context, node: TableFunction, description: type[KeyedOperator]) -> KeyedOperator:
    """The description with the arguments of a call.

    Raises QueryError `query.argument` for an argument that is missing, unknown, given twice, not constant or ill-typed.
    """
    fields = {field.name: field for field in arguments(description)}
    hints = _annotations(description)
    values: dict[str, Any] = {}
    for name, given in _given(context, node, list(fields)):
        values[name] = _value(context, node, name, given, hints.get(name))
    for field in fields.values():
        has_default = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
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
