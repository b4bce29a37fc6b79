"""Conditions as machine arithmetic: every value is an integer or a float, with separate code for whether it is null.

`lowered.py` says how each type becomes a number; what can't be computed with numbers raises `NotCompilable`. The code
of a boolean is false where it is null, so a condition needs no null test of its own.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from trimtab.engine.match.compile.registers import ACCUMULATORS, ROW_PARTS, Fold, folds
from trimtab.engine.match.ir.expression import HERE, Aggregate, Call, Const, Expr, MatchNumber, Opaque, RowValue, Source
from trimtab.engine.match.kernels.emit import CERTAIN_ROWS, THIS_ROW, Emitter, NotCompilable
from trimtab.engine.match.kernels.emit_calls import CALLS
from trimtab.engine.match.kernels.lowered import DAY_US, Value, any_of, choice, form_of, if_known, int_of


def check_foldable(aggregate: Aggregate) -> None:
    """Raise `NotCompilable` unless the aggregate has accumulators of machine numbers."""
    if aggregate.function not in ACCUMULATORS:
        raise NotCompilable(aggregate.function)
    remembers_row = not ROW_PARTS.isdisjoint(ACCUMULATORS[aggregate.function])
    for arg in aggregate.args:
        form, _ = form_of(arg.type)
        if remembers_row and not _is_plain(arg):
            raise NotCompilable("an aggregate over something else than a column")
        if aggregate.function in ("sum", "avg") and form not in ("i", "f", "d"):
            raise NotCompilable("a sum of something else than numbers")


def _is_plain(expr: Expr) -> bool:
    """Whether an expression is a column at the row itself."""
    if not isinstance(expr, RowValue) or expr.place != HERE:
        return False
    return len(expr.sources) == 1 and isinstance(expr.sources[0], str)


MANY_WORDS = 14
"""Code with fewer names and numbers is short."""
_WORDS = re.compile(r"[\w.]+")


def _is_long(code: str) -> bool:
    """Whether code is too long to be repeated, however long the names in it are.

    >>> _is_long("(column0[row] < column0[(row - 1)])")
    False
    """
    return len(code) >= 2 * MANY_WORDS and len(_WORDS.findall(code)) >= MANY_WORDS


class NumericEmitter(Emitter):
    """Writes conditions and accumulators as arithmetic."""

    def condition(self, expr: Expr) -> str:
        """Code that is true where the condition is."""
        return self.value(expr).code

    # Values ------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> Value:
        """Code for an expression."""
        match expr:
            case Const():
                return self.const(expr)
            case RowValue():
                return self.row_value(expr)
            case MatchNumber():
                return Value("(number + 1)", "False", "i")
            case Aggregate():
                return self.aggregate(expr)
            case Call("and" | "or" as function, args):
                return self.connective(function, args)
            case Call(function, args, type_):
                found = CALLS[function](self, tuple(self.value(a) for a in args), type_)
                return self.named(found)
            case Opaque():
                raise NotCompilable(expr.sql)

    def named(self, value: Value) -> Value:
        """The same value with local names for long code, so that code does not grow by repetition."""
        code = self.temp(("value", value.code), value.code) if _is_long(value.code) else value.code
        null = self.temp(("null", value.null), value.null) if _is_long(value.null) else value.null
        return replace(value, code=code, null=null)

    def connective(self, function: str, args: tuple[Expr, ...]) -> Value:
        """AND and OR: a test whose outcome is known at this position leaves no code.

        Nor does it leave reads: a register that only such a test reads makes no two threads different.
        """
        decisive = Value("False" if function == "and" else "True", "False", "b")
        neutral = Value("True" if function == "and" else "False", "False", "b")
        before, values = self.mark(), []
        for arg in args:
            mark = self.mark()
            value = self.value(arg)
            if value == decisive:
                self.forget(before)
                return decisive
            if value == neutral:
                self.forget(mark)
            else:
                values.append(value)
        if not values:
            return neutral
        return self.named(CALLS[function](self, tuple(values), pa.bool_()))

    def const(self, const: Const) -> Value:
        """A literal as a machine number."""
        value: Any = const.value
        form, scale = form_of(const.type)
        if value is None:
            return Value("0", "True", form, scale)
        match form:
            case "b":
                code = repr(bool(value))
            case "s":
                code = f"constant_ranks[{self.kernel.strings.index(str(value))}]"
            case "f":
                if not math.isfinite(value):
                    raise NotCompilable("a constant that is not finite")
                code = self.kernel.literal(repr(float(value)))
            case "d":
                code = self.kernel.literal(str(int(Decimal(str(value)).scaleb(scale))))
            case _:
                code = self.kernel.literal(str(int_of(value)))
        return Value(code, "False", form, scale)

    def row_value(self, expr: RowValue) -> Value:
        """The value of one row, or its default where there is no such row."""
        row = self.row(expr.place)
        if row == "-1":
            return self.const(expr.default)
        label = "0" if len(expr.sources) == 1 else self.row_label(expr.place)
        if label.lstrip("-").isdigit():
            found = self.source(expr.sources[int(label)], row, expr.type)
        else:
            values = [self.source(source, row, expr.type) for source in expr.sources]
            code, null = choice(values, [f"{label} == {number}" for number in range(len(values) - 1)])
            found = replace(values[-1], code=code, null=null)
        if row in CERTAIN_ROWS:
            return self.named(found)
        default = self.const(expr.default)
        if default.null == "True":
            return self.named(_null_without(row, found))
        code = f"({found.code} if {row} >= 0 else {default.code})"
        null = "False" if found.null == "False" else f"({row} >= 0 and {found.null})"
        return self.named(replace(found, code=code, null=null))

    def source(self, source: Source, row: str, type_: pa.DataType) -> Value:
        """A column's value at a row, or the constant."""
        if isinstance(source, Const):
            return self.const(Const(source.value, type_))
        form, scale = form_of(type_)
        number = self.kernel.columns.index(source)
        code = f"column{number}[{row}]"
        null = f"nulls{number}[{row}] != 0" if source in self.kernel.nullable else "False"
        return Value(f"({code} != 0)" if form == "b" else code, null, form, scale)

    # Aggregates --------------------------------------------------------------------------------

    def aggregate(self, expr: Aggregate) -> Value:
        """An aggregate, this row counted."""
        check_foldable(expr)
        return self.named(self.finished(expr, [self.updated(fold) for fold in folds(expr)]))

    def finished(self, expr: Aggregate, parts: list[str]) -> Value:
        """An aggregate's value from its accumulators."""
        match expr.function:
            case "count":
                return Value(parts[0], "False", "i")
            case "sum":
                form, scale = form_of(expr.args[0].type)
                return Value(parts[1], f"{parts[0]} == 0", form, scale)
            case "avg":
                if form_of(expr.args[0].type)[0] == "d" or pa.types.is_duration(expr.type):
                    raise NotCompilable("an average that is rounded")
                return Value(f"({parts[1]} / {parts[0]} if {parts[0]} > 0 else 0.0)", f"{parts[0]} == 0", "f")
            case "stddev_samp" | "stddev_pop" | "var_samp" | "var_pop":
                fewer = 1 if expr.function.endswith("samp") else 0
                enough = f"{parts[0]} > {fewer}"
                code = f"({parts[2]} / ({parts[0]} - {fewer}) if {enough} else 0.0)"
                code = f"sqrt_f{code}" if expr.function.startswith("stddev") else code
                return Value(code, f"{parts[0]} <= {fewer}", "f")
            case "bool_and" | "bool_or":
                return Value(f"({parts[0]} == 1)", f"{parts[0]} < 0", "b")
            case _:
                arg = expr.args[0]
                assert isinstance(arg, RowValue)
                return _null_without(parts[0], self.source(arg.sources[0], parts[0], arg.type))

    def fold(self, fold: Fold) -> str:
        """The accumulator's new value; the label is one that counts."""
        before = self.read(fold)
        if fold.part == "rows":
            return f"{before} + 1"
        arg = self.value(fold.args[0])
        if fold.part in ROW_PARTS:
            return self._row_fold(fold, before, arg)
        if fold.part in ("mean", "m2"):
            return self._welford(fold, before, arg)
        match fold.part:
            case "count":
                return if_known(arg, f"{before} + 1", before)
            case "sum" | "fsum":
                return if_known(arg, f"{before} + {arg.code}", before)
            case "and":
                return if_known(arg, f"(0 if {before} == 0 or not {arg.code} else 1)", before)
            case _:
                return if_known(arg, f"(1 if {before} == 1 or {arg.code} else 0)", before)

    def _welford(self, fold: Fold, before: str, arg: Value) -> str:
        count = self.updated(replace(fold, part="count"))
        mean = self.temp(("mean", fold.labels, fold.args), self.read(replace(fold, part="mean")))
        value = self.as_float(arg).code
        if fold.part == "mean":
            return if_known(arg, f"{mean} + ({value} - {mean}) / {count}", before)
        new_mean = self.updated(replace(fold, part="mean"))
        return if_known(arg, f"{before} + ({value} - {mean}) * ({value} - {new_mean})", before)

    def _row_fold(self, fold: Fold, before: str, arg: Value) -> str:
        old = self.temp(("read", fold), before)
        match fold.part:
            case "last":
                return THIS_ROW
            case "first":
                return f"({THIS_ROW} if {old} < 0 else {old})"
            case "any":
                return if_known(arg, f"({THIS_ROW} if {old} < 0 else {old})", old)
        key = fold.args[-1]
        assert isinstance(key, RowValue)
        mine = self.value(key)
        best = self.source(key.sources[0], old, key.type)
        sign = "<" if fold.part.startswith("min") else ">"
        better = self.compare(sign, mine, best)
        return if_known(mine, f"({THIS_ROW} if {old} < 0 or {better} else {old})", old)

    # Arithmetic --------------------------------------------------------------------------------

    def as_float(self, value: Value) -> Value:
        """A number as a float."""
        if value.form == "f":
            return value
        if value.form == "d":
            return Value(f"({value.code} / {float(10**value.scale)!r})", value.null, "f")
        if value.form == "i":
            return Value(f"float({value.code})", value.null, "f")
        raise NotCompilable(f"a number from {value.form}")

    def alike(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values brought to one form, so that they can be compared or chosen between."""
        typed = [v for v in values if v.null != "True"]
        forms = {v.form for v in typed}
        if len(forms) <= 1 and "d" not in forms:
            form = next(iter(forms)) if forms else values[0].form
            zero = "0.0" if form == "f" else "False" if form == "b" else "0"
            return tuple(Value(zero, "True", form) if v.null == "True" else v for v in values)
        if "s" in forms or "b" in forms:
            raise NotCompilable("values of different kinds")
        if "date" in forms:
            # A date beside a timestamp is its midnight.
            if forms != {"date", "i"}:
                raise NotCompilable("values of different kinds")
            return tuple(Value(f"({v.code} * {DAY_US})", v.null, "i") if v.form == "date" else v for v in values)
        if "f" in forms:
            return tuple(Value("0.0", "True", "f") if v.null == "True" else self.as_float(v) for v in values)
        scale = max(v.scale for v in values)
        return tuple(
            Value(v.code if v.scale == scale else f"({v.code} * {10 ** (scale - v.scale)})", v.null, "d", scale)
            for v in values
        )

    def compare(self, sign: str, a: Value, b: Value) -> str:
        """Code for a comparison of two values that are not null."""
        a, b = self.alike((a, b))
        if a.form == "f" and self.kernel.nan:
            # NaN equals itself and is larger than everything else.
            left, right = (b.code, a.code) if sign in (">", "<=") else (a.code, b.code)
            test = f"{'same_f' if sign in ('=', '<>') else 'less_f'}({left}, {right})"
            return test if sign in ("=", "<", ">") else f"(not {test})"
        operator = {"=": "==", "<>": "!="}.get(sign, sign)
        return f"({a.code} {operator} {b.code})"


def _null_without(row: str, value: Value) -> Value:
    """A row's value, null if there is no such row."""
    code = f"({row} >= 0 and {value.code})" if value.form == "b" else value.code
    return replace(value, code=code, null=any_of(f"{row} < 0", value.null))
