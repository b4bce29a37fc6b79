"""Forms of expressions that give the same over columns as in Spark if they are written in a certain way.

Each gives the type of the result, or raises ObstacleError; `of` is the type of a part.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from trimtab.rowwise.columnar_calls import DAYS, FIELDS, LENGTHS, UNITS
from trimtab.rowwise.java_regex import translated
from trimtab.rowwise.operand_kinds import INTEGERS, ObstacleError, unknown
from trimtab.rowwise.own_functions import MOST_DIGITS
from trimtab.rowwise.types import is_time

KindOf: TypeAlias = Callable[[exp.Expr], pa.DataType]
_MOST_DAYS = 1_000_000
"""How much may be added to a time: more of a unit may leave what a time can be."""


def name_of(node: exp.Expr) -> str:
    """What a function or an operator is called, for messages."""
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql_name().lower() if isinstance(node, exp.Func) else node.key


def texts(of: KindOf, name: str, parts: Sequence[exp.Expr], result: pa.DataType) -> pa.DataType:
    """A function of texts only."""
    for part in parts:
        if (kind := of(part)) != pa.string():
            raise unknown(f"{name} of {kind}")
    return result


def of_integers(of: KindOf, node: exp.Expr, result: pa.DataType | None) -> pa.DataType:
    """A function of two integers; without a result it gives the wider one."""
    kinds = [of(node.this), of(node.expression)]
    if not all(kind in INTEGERS for kind in kinds):
        raise unknown(f"{name_of(node)} of {kinds[0]} and {kinds[1]}")
    return max(kinds, key=INTEGERS.index) if result is None else result


def rounding(of: KindOf, node: exp.Round) -> pa.DataType:
    """`round` of a double, which is computed by `own_functions.py`."""
    kind, places = of(node.this), node.args.get("decimals")
    if kind != pa.float64():
        raise unknown(f"round of {kind}")
    is_plain = places is None or isinstance(places, exp.Literal)
    if not is_plain or (places is not None and not (places.is_int and 0 <= int(places.name) <= MOST_DIGITS)):
        raise ObstacleError(f"round keeps digits whose number isn't written out from 0 to {MOST_DIGITS}")
    return kind


def regular(of: KindOf, node: exp.Expr) -> pa.DataType:
    """A function with a regular expression, which has to mean the same in Java and here."""
    pattern, name = node.expression, name_of(node)
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise ObstacleError(f"{name} has a pattern that isn't written out")
    found = translated(pattern.name)
    if found is None:
        raise ObstacleError(f"{name} has a pattern that isn't known to mean the same here as in Java")
    texts(of, name, [node.this], pa.string())
    if isinstance(node, exp.RegexpLike):
        return pa.bool_()
    group, replacement = node.args.get("group"), node.args.get("replacement")
    is_fine = not found.has_end and not any(node.args.get(key) for key in ("position", "occurrence", "parameters"))
    if isinstance(node, exp.RegexpExtract):
        is_fine &= group is None or (group.is_int and int(group.name) <= found.groups)
    else:
        is_plain = isinstance(replacement, exp.Literal) and replacement.is_string and not found.may_match_nothing
        is_fine &= is_plain and not node.args.get("modifiers") and not set("\\$") & set(node.text("replacement"))
    if not is_fine:
        raise ObstacleError(f"{name} is written in a way that isn't known to give the same as in Spark")
    return pa.string()


def part_of_time(of: KindOf, node: exp.Extract | exp.TimestampTrunc) -> pa.DataType:
    """EXTRACT, and date_trunc."""
    is_cut = isinstance(node, exp.TimestampTrunc)
    moment, unit = (node.this, node.args["unit"]) if is_cut else (node.expression, node.this)
    kind, name = of(moment), "" if unit is None else unit.name.upper()
    is_known = name in (UNITS if is_cut else FIELDS) and not node.args.get("zone")
    if not is_known or not (pa.types.is_timestamp(kind) or (not is_cut and is_time(kind))):
        raise unknown(f"{name.lower()} of {kind}")
    return kind if is_cut else FIELDS[name]


def days_later(of: KindOf, node: exp.TsOrDsAdd | exp.AddMonths) -> pa.DataType:
    """date_add, date_sub and add_months, with numbers that are written out."""
    kind, days = of(node.this), node.expression
    number = days.this if isinstance(days, exp.Mul) else days  # date_sub(x, 3) is date_add(x, 3 * -1)
    unit = node.args.get("unit")
    is_plain = isinstance(number, exp.Literal) and number.name.isdigit() and int(number.name) <= _MOST_DAYS
    if kind != pa.date32() or not is_plain or (unit is not None and unit.name.upper() != "DAY"):
        raise unknown(f"{name_of(node)} of {kind} and {days.sql('spark')}")
    return kind


def later(of: KindOf, node: exp.Expr) -> pa.DataType:
    """A time plus or minus a length of time."""
    kind, length = of(node.this), node.expression
    unit = length.args.get("unit")
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    known = DAYS if kind == pa.date32() else LENGTHS
    amount = length.this
    is_plain = isinstance(amount, exp.Literal) and amount.name.isdigit() and int(amount.name) <= _MOST_DAYS
    if not is_time(kind) or name not in known or not is_plain:
        raise unknown(f"{name_of(node)} of {kind} and {length.sql('spark')}")
    return kind


def like(of: KindOf, node: exp.Like | exp.ILike, escape: str) -> pa.DataType:
    """LIKE and ILIKE, with this escape character."""
    pattern, name = node.expression, name_of(node).upper()
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        raise ObstacleError(f"{name} has a pattern that isn't written out")
    rest = re.sub(f"{re.escape(escape)}[%_{re.escape(escape)}]", "", pattern.name)
    if len(escape) != 1 or escape in rest or (isinstance(node, exp.ILike) and escape.isalpha()):
        raise ObstacleError(f"{name} has an escape character before something else than % or _")
    return texts(of, name, [node.this], pa.bool_())


def substring(of: KindOf, node: exp.Substring) -> pa.DataType:
    """A piece of a text, from a place that is written out."""
    start, length = node.args.get("start"), node.args.get("length")
    for part in (start, length):
        if part is not None and not (isinstance(part, exp.Literal) and part.name.isdigit()):
            raise ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
    if start is None or not int(start.name):
        raise ObstacleError("substring has a place or a length that isn't a plain number from 1 on")
    return texts(of, "substring", [node.this], pa.string())
