"""Conditions as machine arithmetic: every value an integer or a float, with a separate truth for null.

Booleans are 0 and 1, strings are their ranks among all strings at hand, dates are days, timestamps and intervals are
microseconds, decimals of up to 18 digits are scaled integers. What can't be said so raises `NotCompilable`.

For booleans the code is "is true": false where the value is null, so a condition needs no null test of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from trimtab.engine.match.compile.registers import ROW_PARTS, Fold, Layout, folds
from trimtab.engine.match.ir.expression import HERE, Aggregate, Call, Const, Expr, MatchNumber, Opaque, RowValue, Source
from trimtab.engine.match.kernels.emit import CERTAIN_ROWS, THIS_ROW, Columns, Emitter, NotCompilable, Thread, Writer
from trimtab.engine.match.kernels.emit_calls import CALLS
from trimtab.engine.match.kernels.interface import column_name, nulls_name
from trimtab.engine.match.kernels.lowered import DAY_US, Value, any_of, form_of, if_known, int_of


def fold_kind(aggregate: Aggregate) -> str:
    """Whether an aggregate's accumulators are integers (`i`) or floats (`f`)."""
    if not aggregate.args:
        return "i"
    return "f" if form_of(aggregate.args[0].type)[0] == "f" else "i"


ROW_FUNCTIONS = frozenset({"min", "max", "any_value", "first_value", "last_value", "max_by", "min_by"})
"""Aggregates that remember a row, so their arguments must be plain columns."""

FOLDED = ROW_FUNCTIONS | {
    "count", "sum", "avg", "stddev_samp", "stddev_pop", "var_samp", "var_pop", "bool_and", "bool_or"
}  # fmt: skip
"""Aggregates with accumulators of fixed size."""


def check_foldable(aggregate: Aggregate) -> None:
    """Raise `NotCompilable` unless the aggregate has accumulators of machine numbers."""
    if aggregate.function not in FOLDED:
        raise NotCompilable(aggregate.function)
    for arg in aggregate.args:
        form, _ = form_of(arg.type)
        if aggregate.function in ROW_FUNCTIONS and not _is_plain(arg):
            raise NotCompilable("an aggregate over something else than a column")
        if aggregate.function in ("sum", "avg") and form not in ("i", "f", "d"):
            raise NotCompilable("a sum of something else than numbers")


def _is_plain(expr: Expr) -> bool:
    return (
        isinstance(expr, RowValue)
        and expr.place == HERE
        and len(expr.sources) == 1
        and isinstance(expr.sources[0], str)
    )


MANY_WORDS = 14
"""Code of fewer names and numbers is short."""
_WORDS = re.compile(r"[\w.]+")


def _is_long(code: str) -> bool:
    """Whether code is too long to be repeated, however long the names in it are.

    >>> _is_long("(column0[row] < column0[(row - 1)])")
    False
    """
    return len(code) >= 2 * MANY_WORDS and len(_WORDS.findall(code)) >= MANY_WORDS


@dataclass
class Constants:
    """String constants, whose ranks are only known when the strings at hand are."""

    strings: list[str]

    def code(self, text: str) -> str:
        """Code for the constant's rank."""
        if text not in self.strings:
            self.strings.append(text)
        return f"constant_ranks[{self.strings.index(text)}]"


class NumericEmitter(Emitter):
    """Writes conditions and accumulators as arithmetic. `nullable` are the columns that hold nulls."""

    def __init__(
        self,
        writer: Writer,
        layout: Layout,
        columns: Columns,
        label: int,
        thread: Thread,
        constants: Constants,
        nullable: frozenset[str],
        nan: bool,
    ) -> None:
        super().__init__(writer, layout, columns, label, thread)
        self.constants, self.nullable, self.nan = constants, nullable, nan

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
        """The same value with long code behind a local name, so that code does not grow by repetition."""
        code = self.temp(("value", value.code), value.code) if _is_long(value.code) else value.code
        null = self.temp(("null", value.null), value.null) if _is_long(value.null) else value.null
        return Value(code, null, value.form, value.scale)

    def connective(self, function: str, args: tuple[Expr, ...]) -> Value:
        """AND and OR without what doesn't matter: a test known to be so or not at this position leaves no code.

        Nor does it leave reads: a register that only such a test looks at need not tell threads apart.
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
        value = const.value
        if value is None:
            return Value("0", "True", form_of(const.type)[0], form_of(const.type)[1])
        form, scale = form_of(const.type)
        if form == "b":
            return Value(repr(bool(value)), "False", "b")
        if form == "s":
            return Value(self.constants.code(str(value)), "False", "s")
        if form == "f":
            number = float(value)  # type: ignore[arg-type]
            code = repr(number) if number - number == 0 else f"float('{number}')"
            if number - number != 0:
                raise NotCompilable("a constant that is not finite")
            return Value(code, "False", "f")
        if form == "d":
            return Value(str(int(Decimal(str(value)).scaleb(scale))), "False", "d", scale)
        return Value(str(int_of(value)), "False", form)

    def row_value(self, expr: RowValue) -> Value:
        """The value of one row, or its default where there is no such row."""
        row = self.row(expr.place)
        form, scale = form_of(expr.type)
        certain = row in CERTAIN_ROWS
        if row == "-1":
            return self.const(expr.default)
        if len(expr.sources) == 1:
            found = self.source(expr.sources[0], row, form, scale, expr.type)
        else:
            label = self.row_label(expr.place)
            if label.lstrip("-").isdigit():
                found = self.source(expr.sources[int(label)], row, form, scale, expr.type)
            else:
                found = self.by_label(expr, label, row, form, scale)
        if certain:
            return self.named(found)
        default = self.const(expr.default)
        if default.null == "True":
            code = f"({row} >= 0 and {found.code})" if found.form == "b" else found.code
            return self.named(Value(code, any_of(f"{row} < 0", found.null), form, scale))
        code = f"({found.code} if {row} >= 0 else {default.code})"
        null = "False" if found.null == "False" else f"({row} >= 0 and {found.null})"
        return self.named(Value(code, null, form, scale))

    def source(self, source: Source, row: str, form: str, scale: int, type_: pa.DataType) -> Value:
        """A column's value at a row, or the constant."""
        if isinstance(source, Const):
            found = self.const(Const(source.value, type_))
            return Value(found.code, found.null, form, scale)
        j = self.columns.index(source)
        if form == "s" and source not in self.columns.ranked:
            self.columns.ranked.append(source)
        null = f"{nulls_name(j)}[{row}] != 0" if source in self.nullable else "False"
        code = f"{column_name(j)}[{row}]"
        if form == "b":
            code = f"{code} != 0"
        return Value(f"({code})" if form == "b" else code, null, form, scale)

    def by_label(self, expr: RowValue, label: str, row: str, form: str, scale: int) -> Value:
        """A value whose source depends on a label that is only known at run time."""
        values = [self.source(s, row, form, scale, expr.type) for s in expr.sources]
        code, null = values[-1].code, values[-1].null
        for number, value in reversed(list(enumerate(values[:-1]))):
            code = f"({value.code} if {label} == {number} else {code})"
            null = null if null == value.null else f"({value.null} if {label} == {number} else {null})"
        return Value(code, null, form, scale)

    # Aggregates --------------------------------------------------------------------------------

    def aggregate(self, expr: Aggregate) -> Value:
        """An aggregate, this row counted."""
        check_foldable(expr)
        parts = [self.updated(f) for f in folds(expr, fold_kind(expr))]
        return self.named(self.finished(expr, parts))

    def finished(self, expr: Aggregate, parts: list[str]) -> Value:
        """An aggregate's value from its accumulators."""
        match expr.function:
            case "count":
                return Value(parts[0], "False", "i")
            case "sum":
                form, scale = form_of(expr.args[0].type)
                return Value(parts[1], f"{parts[0]} == 0", form, scale)
            case "avg":
                form, scale = form_of(expr.args[0].type)
                if form == "d" or pa.types.is_duration(expr.type):
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
                form, scale = form_of(arg.type)
                found = self.source(arg.sources[0], parts[0], form, scale, arg.type)
                code = f"({parts[0]} >= 0 and {found.code})" if form == "b" else found.code
                return Value(code, any_of(f"{parts[0]} < 0", found.null), form, scale)

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
        count = self.updated(Fold("count", fold.labels, fold.args))
        mean = self.temp(("mean", fold.labels, fold.args), self.read(Fold("mean", fold.labels, fold.args)))
        value = self.as_float(arg).code
        if fold.part == "mean":
            return if_known(arg, f"{mean} + ({value} - {mean}) / {count}", before)
        new_mean = self.updated(Fold("mean", fold.labels, fold.args))
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
        form, scale = form_of(key.type)
        mine = self.value(key)
        best = self.source(key.sources[0], old, form, scale, key.type)
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
        if a.form == "f" and self.nan:
            # NaN equals itself and is larger than everything else.
            left, right = (a.code, b.code) if sign in ("<", "<=", "=", "<>") else (b.code, a.code)
            match sign:
                case "=":
                    return f"same_f({left}, {right})"
                case "<>":
                    return f"(not same_f({left}, {right}))"
                case "<" | ">":
                    return f"less_f({left}, {right})"
                case _:
                    return f"(not less_f({right}, {left}))"
        return f"({a.code} {dict(zip(('=', '<>'), ('==', '!='), strict=True)).get(sign, sign)} {b.code})"
