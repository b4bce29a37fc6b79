"""Conditions as machine arithmetic: every value an integer or a float, with a separate truth for null.

Booleans are 0 and 1, strings are their ranks among all strings at hand, dates are days, timestamps and intervals are
microseconds, decimals of up to 18 digits are scaled integers. What can't be said so raises `NotCompilable`.

For booleans the code is "is true": false where the value is null, so a condition needs no null test of its own.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

import pyarrow as pa

from trimtab.engine.emit import CERTAIN_ROWS, Columns, Emitter, NotCompilable, Thread, Writer
from trimtab.engine.expression import (
    HERE,
    Aggregate,
    Call,
    Const,
    Expr,
    MatchNumber,
    Opaque,
    RowValue,
    Source,
)
from trimtab.engine.registers import ROW_PARTS, Fold, Layout, folds

EPOCH = datetime.datetime(1970, 1, 1)
DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Value:
    """Code for a value and for whether it is null; `form` is b, i, f, s (string rank), date, or d (scaled decimal)."""

    code: str
    null: str
    form: str
    scale: int = 0


def form_of(type_: pa.DataType) -> tuple[str, int]:
    """How values of a type are held in a kernel: the form, and the scale of a decimal."""
    types = pa.types
    if types.is_boolean(type_):
        return "b", 0
    if types.is_uint64(type_):
        raise NotCompilable("unsigned numbers of 64 bits")
    if types.is_integer(type_) or types.is_timestamp(type_) or types.is_duration(type_):
        return "i", 0
    if types.is_date(type_):
        return "date", 0
    if types.is_floating(type_):
        return "f", 0
    if types.is_decimal(type_) and type_.precision <= 18:
        return "d", type_.scale
    if is_string(type_):
        return "s", 0
    if types.is_null(type_):
        return "i", 0
    raise NotCompilable(f"type {type_}")


def is_string(type_: pa.DataType) -> bool:
    """Whether the type is text, in any of Arrow's layouts."""
    if pa.types.is_dictionary(type_):
        return is_string(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_))


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


@dataclass
class Constants:
    """String constants, whose ranks are only known when the strings at hand are."""

    strings: list[str]

    def code(self, text: str) -> str:
        """Code for the constant's rank."""
        if text not in self.strings:
            self.strings.append(text)
        return f"K[{self.strings.index(text)}]"


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
        code = value.code if len(value.code) < 60 else self.temp(("value", value.code), value.code)
        null = value.null if len(value.null) < 60 else self.temp(("null", value.null), value.null)
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
        combine = _all if function == "and" else _any
        return self.named(combine(self, tuple(values), pa.bool_()))

    def const(self, const: Const) -> Value:
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
        row = self.row(expr.place)
        form, scale = form_of(expr.type)
        certain = row in CERTAIN_ROWS or row == self.thread.start
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
            if found.form == "b":
                code = f"({row} >= 0 and {found.code})"
            else:
                code = found.code
            return self.named(Value(code, _or(f"{row} < 0", found.null), form, scale))
        if found.form == "b":
            code = f"({found.code} if {row} >= 0 else {default.code})"
        else:
            code = f"({found.code} if {row} >= 0 else {default.code})"
        null = "False" if found.null == "False" else f"({row} >= 0 and {found.null})"
        return self.named(Value(code, null, form, scale))

    def source(self, source: Source, row: str, form: str, scale: int, type_: pa.DataType) -> Value:
        if isinstance(source, Const):
            found = self.const(Const(source.value, type_))
            return Value(found.code, found.null, form, scale)
        j = self.columns.index(source)
        if form == "s" and source not in self.columns.ranked:
            self.columns.ranked.append(source)
        null = f"n{j}[{row}] != 0" if source in self.nullable else "False"
        code = f"c{j}[{row}]"
        if form == "b":
            code = f"{code} != 0"
        return Value(f"({code})" if form == "b" else code, null, form, scale)

    def by_label(self, expr: RowValue, label: str, row: str, form: str, scale: int) -> Value:
        values = [self.source(s, row, form, scale, expr.type) for s in expr.sources]
        code, null = values[-1].code, values[-1].null
        for number, value in reversed(list(enumerate(values[:-1]))):
            code = f"({value.code} if {label} == {number} else {code})"
            null = null if null == value.null else f"({value.null} if {label} == {number} else {null})"
        return Value(code, null, form, scale)

    # Aggregates --------------------------------------------------------------------------------

    def aggregate(self, expr: Aggregate) -> Value:
        check_foldable(expr)
        parts = [self.updated(f) for f in folds(expr, fold_kind(expr))]
        return self.named(self.finished(expr, parts))

    def finished(self, expr: Aggregate, parts: list[str]) -> Value:
        match expr.function:
            case "count":
                return Value(parts[0], "False", "i")
            case "sum":
                form, scale = form_of(expr.args[0].type)
                return Value(parts[1], f"{parts[0]} == 0", form, scale)
            case "avg":
                form, scale = form_of(expr.args[0].type)
                if form == "d":
                    raise NotCompilable("an average of decimals")
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
                return Value(code, _or(f"{parts[0]} < 0", found.null), form, scale)

    def fold(self, fold: Fold) -> str:
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
                return _if_known(arg, f"{before} + 1", before)
            case "sum" | "fsum":
                return _if_known(arg, f"{before} + {arg.code}", before)
            case "and":
                return _if_known(arg, f"(0 if {before} == 0 or not {arg.code} else 1)", before)
            case _:
                return _if_known(arg, f"(1 if {before} == 1 or {arg.code} else 0)", before)

    def _welford(self, fold: Fold, before: str, arg: Value) -> str:
        count = self.updated(Fold("count", fold.labels, fold.args))
        mean = self.temp(("mean", fold.labels, fold.args), self.read(Fold("mean", fold.labels, fold.args)))
        value = self.as_float(arg).code
        if fold.part == "mean":
            return _if_known(arg, f"{mean} + ({value} - {mean}) / {count}", before)
        new_mean = self.updated(Fold("mean", fold.labels, fold.args))
        return _if_known(arg, f"{before} + ({value} - {mean}) * ({value} - {new_mean})", before)

    def _row_fold(self, fold: Fold, before: str, arg: Value) -> str:
        old = self.temp(("read", fold), before)
        match fold.part:
            case "last":
                return "i"
            case "first":
                return f"(i if {old} < 0 else {old})"
            case "any":
                return _if_known(arg, f"(i if {old} < 0 else {old})", old)
        key = fold.args[-1]
        assert isinstance(key, RowValue)
        form, scale = form_of(key.type)
        mine = self.value(key)
        best = self.source(key.sources[0], old, form, scale, key.type)
        sign = "<" if fold.part.startswith("min") else ">"
        better = self.compare(sign, mine, best)
        return _if_known(mine, f"(i if {old} < 0 or {better} else {old})", old)

    # Arithmetic --------------------------------------------------------------------------------

    def as_float(self, value: Value) -> Value:
        if value.form == "f":
            return value
        if value.form == "d":
            return Value(f"({value.code} / {float(10**value.scale)!r})", value.null, "f")
        if value.form == "i":
            return Value(f"float({value.code})", value.null, "f")
        raise NotCompilable(f"a number from {value.form}")

    def alike(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """The values brought to one form, so that they can be compared or chosen between."""
        typed = [v for v in values if not (v.null == "True")]
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
            Value(
                v.code if v.scale == scale else f"({v.code} * {10 ** (scale - v.scale)})",
                v.null,
                "d",
                scale,
            )
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


def int_of(value: object) -> int:
    """A constant of an integer form as its number."""
    match value:
        case bool() | int():
            return int(value)
        case datetime.timedelta():
            return value // datetime.timedelta(microseconds=1)
        case datetime.datetime():
            if value.tzinfo is not None:
                value = value.astimezone(datetime.UTC).replace(tzinfo=None)
            return (value - EPOCH) // datetime.timedelta(microseconds=1)
        case datetime.date():
            return (value - EPOCH.date()).days
        case Decimal():
            return int(value)
        case _:
            raise NotCompilable(f"a constant {value!r}")


def _or(*conditions: str) -> str:
    live = [c for c in conditions if c != "False"]
    if not live:
        return "False"
    if "True" in live:
        return "True"
    return live[0] if len(live) == 1 else "(" + " or ".join(live) + ")"


def _not(condition: str) -> str:
    return {"False": "True", "True": "False"}.get(condition, f"(not {condition})")


def _and(*conditions: str) -> str:
    if "False" in conditions:
        return "False"
    live = [c for c in conditions if c != "True"]
    if not live:
        return "True"
    return live[0] if len(live) == 1 else "(" + " and ".join(live) + ")"


def _if_known(value: Value, then: str, otherwise: str) -> str:
    if value.null == "False":
        return then
    if value.null == "True":
        return otherwise
    return f"({otherwise} if {value.null} else {then})"


# The functions, one by one: (emitter, args, result type) -> value -------------------------------

Arguments = tuple[Value, ...]


def _arithmetic(sign: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        null = _or(*(a.null for a in args))
        form, scale = form_of(type_)
        a, b = args
        if form == "f":
            a, b = emitter.as_float(a), emitter.as_float(b)
            return Value(f"({a.code} {sign} {b.code})", null, "f")
        if {a.form, b.form} & {"s", "b"}:
            raise NotCompilable("arithmetic of something else than numbers")
        if a.form == b.form == "date":
            return Value(f"({a.code} {sign} {b.code})", null, form)
        if sign == "*" and "d" in (a.form, b.form):
            if a.scale + b.scale != scale:
                raise NotCompilable("a product that is rounded")
            return Value(f"({a.code} * {b.code})", null, "d", scale)
        a, b = emitter.alike((a, b))
        if form == "date":
            raise NotCompilable("arithmetic of dates")
        return Value(f"({a.code} {sign} {b.code})", null, form, max(a.scale, b.scale))

    return emit


def _divide(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    if form_of(type_)[0] != "f":
        raise NotCompilable("a division of decimals")
    a, b = (emitter.named(emitter.as_float(v)) for v in args)
    zero = f"{b.code} == 0.0"
    return Value(f"(0.0 if {zero} else {a.code} / {b.code})", _or(a.null, b.null, zero), "f")


def _whole(name: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        a, b = (emitter.named(v) for v in emitter.alike(args))
        if a.form not in ("i", "f") or (a.form == "f" and name == "div"):
            raise NotCompilable(f"{name} of {a.form}")
        zero = f"{b.code} == 0"
        helper = f"{name}_{a.form}"
        fallback = "0.0" if a.form == "f" else "0"
        return Value(
            f"({fallback} if {zero} else {helper}({a.code}, {b.code}))",
            _or(a.null, b.null, zero),
            a.form,
        )

    return emit


def _unary(code: str, forms: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        (a,) = args
        if a.form not in forms:
            raise NotCompilable(f"a function of {a.form}")
        return Value(code.format(a.code), a.null, a.form, a.scale)

    return emit


def _float_function(name: str, null: str = "") -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        values = [emitter.named(emitter.as_float(a)) for a in args]
        missing = _or(*(v.null for v in values), *([null.format(values[0].code)] if null else []))
        guard = f"0.0 if {null.format(values[0].code)} else " if null else ""
        return Value(f"({guard}{name}({', '.join(v.code for v in values)}))", missing, "f")

    return emit


def _rounding(name: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        (a,) = args
        if a.form == "i":
            return a
        if a.form != "f":
            raise NotCompilable(f"{name} of {a.form}")
        a = emitter.named(a)
        return Value(f"{name}({a.code})", _or(a.null, f"({a.code} - {a.code} != 0.0)"), "i")

    return emit


def _compare(sign: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        a, b = args
        null = _or(a.null, b.null)
        return Value(_and(_not(null), emitter.compare(sign, a, b)), null, "b")

    return emit


def _same(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    a, b = args
    both = _and(a.null, b.null)
    neither = _and(_not(a.null), _not(b.null), emitter.compare("=", a, b))
    return Value(_or(both, neither), "False", "b")


def _all(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    code = _and(*(a.code for a in args))
    unknown = _or(*(a.null for a in args))
    if unknown == "False":
        return Value(code, "False", "b")
    refuted = _or(*(_and(_not(a.code), _not(a.null)) for a in args))
    return Value(code, _and(unknown, _not(refuted)), "b")


def _any(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    code = _or(*(a.code for a in args))
    unknown = _or(*(a.null for a in args))
    if unknown == "False":
        return Value(code, "False", "b")
    return Value(code, _and(unknown, _not(code)), "b")


def _negation(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    (a,) = args
    return Value(_and(_not(a.code), _not(a.null)), a.null, "b")


def _is_null(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    return Value(args[0].null, "False", "b")


def _choose(values: Arguments, conditions: list[str]) -> Value:
    """The first value whose condition holds; the last value needs none."""
    code, null = values[-1].code, values[-1].null
    for value, condition in reversed(list(zip(values[:-1], conditions, strict=True))):
        code = f"({value.code} if {condition} else {code})"
        null = null if null == value.null else f"({value.null} if {condition} else {null})"
    first = values[0]
    if first.form == "b" and null != "False":
        code = _and(code, _not(null))  # a boolean's code must be false where it is null
    return Value(code, null, first.form, first.scale)


def _coalesce(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    values = emitter.alike(args)
    return _choose(values, [_not(v.null) for v in values[:-1]])


def _case(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    conditions = [emitter.named(c).code for c in args[0:-1:2]]
    return _choose(emitter.alike((*args[1::2], args[-1])), conditions)


def _nullif(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    a, b = args
    equal = _and(_not(a.null), _not(b.null), emitter.compare("=", a, b))
    code = _and(a.code, _not(equal)) if a.form == "b" else a.code
    return Value(code, _or(a.null, equal), a.form, a.scale)


def _in(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    a, others = args[0], args[1:]
    equal = [_and(_not(_or(a.null, o.null)), emitter.compare("=", a, o)) for o in others]
    found = emitter.named(Value(_or(*equal), "False", "b")).code
    unknown = _or(a.null, *(o.null for o in others))
    return Value(found, _and(unknown, _not(found)), "b")


def _extreme(sign: str) -> Callable[[NumericEmitter, Arguments, pa.DataType], Value]:
    def emit(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
        values = [emitter.named(v) for v in emitter.alike(args)]
        best = values[0]
        for value in values[1:]:
            better = _and(_not(value.null), _or(best.null, emitter.compare(sign, value, best)))
            best = emitter.named(
                Value(
                    f"({value.code} if {better} else {best.code})",
                    _and(best.null, value.null),
                    best.form,
                    best.scale,
                )
            )
        return best

    return emit


def _to_float(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    return emitter.as_float(args[0])


CALLS: dict[str, Callable[[NumericEmitter, Arguments, pa.DataType], Value]] = {
    "+": _arithmetic("+"),
    "-": _arithmetic("-"),
    "*": _arithmetic("*"),
    "/": _divide,
    "div": _whole("div"),
    "%": _whole("mod"),
    "neg": _unary("(-{})", "ifd"),
    "abs": _unary("abs({})", "ifd"),
    "=": _compare("="),
    "<>": _compare("<>"),
    "<": _compare("<"),
    "<=": _compare("<="),
    ">": _compare(">"),
    ">=": _compare(">="),
    "<=>": _same,
    "and": _all,
    "or": _any,
    "not": _negation,
    "is_null": _is_null,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "in": _in,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
    "sqrt": _float_function("sqrt_f"),
    "exp": _float_function("exp_f"),
    "ln": _float_function("ln_f", null="({} <= 0.0)"),
    "power": _float_function("power_f"),
    "floor": _rounding("floor_i"),
    "ceil": _rounding("ceil_i"),
    "to_float": _to_float,
    "to_int": _rounding("trunc_i"),
}
