"""The functions of `scalars.SCALARS` as machine arithmetic, one by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.lowered import Value, all_of, any_of, choice, form_of, negated

if TYPE_CHECKING:
    from trimtab.engine.match.kernels.emit_numeric import NumericEmitter

Arguments = tuple[Value, ...]
Emit = Callable[["NumericEmitter", Arguments, pa.DataType], Value]
"""Code for a call, from code for its arguments; the type is that of the call."""


def _arithmetic(sign: str, emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    null = any_of(*(a.null for a in args))
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


def _divide(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    if form_of(type_)[0] != "f":
        raise NotCompilable("a division of decimals")
    a, b = (emitter.named(emitter.as_float(v)) for v in args)
    zero = f"{b.code} == 0.0"
    return Value(f"(0.0 if {zero} else {a.code} / {b.code})", any_of(a.null, b.null, zero), "f")


def _whole(name: str, emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    a, b = (emitter.named(v) for v in emitter.alike(args))
    if a.form not in ("i", "f") or (a.form == "f" and name == "div"):
        raise NotCompilable(f"{name} of {a.form}")
    zero, answer = f"{b.code} == 0", "0.0" if a.form == "f" else "0"
    code = f"({answer} if {zero} else {name}_{a.form}({a.code}, {b.code}))"
    return Value(code, any_of(a.null, b.null, zero), a.form)


def _unary(code: str, _emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    (a,) = args
    if a.form not in ("i", "f", "d"):
        raise NotCompilable(f"a function of {a.form}")
    return Value(code.format(a.code), a.null, a.form, a.scale)


def _float_function(
    name: str, emitter: NumericEmitter, args: Arguments, _type: pa.DataType, null: str = "False"
) -> Value:
    values = [emitter.named(emitter.as_float(a)) for a in args]
    undefined = null.format(values[0].code)
    guard = f"0.0 if {undefined} else " if undefined != "False" else ""
    code = f"({guard}{name}({', '.join(v.code for v in values)}))"
    return Value(code, any_of(*(v.null for v in values), undefined), "f")


def _rounding(name: str, emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    (a,) = args
    if a.form == "i":
        return a
    if a.form != "f":
        raise NotCompilable(f"{name} of {a.form}")
    a = emitter.named(a)
    # The nearest number that a bigint can hold, and 0 for NaN.
    fits = f"-9223372036854775808.0 <= {a.code} < 9223372036854775808.0"
    most, least = "9223372036854775807", "(-9223372036854775807 - 1)"
    beside = f"({most} if {a.code} > 0.0 else {least} if {a.code} < 0.0 else 0)"
    return Value(f"({name}({a.code}) if {fits} else {beside})", a.null, "i")


def _compare(sign: str, emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    a, b = args
    null = any_of(a.null, b.null)
    return Value(all_of(negated(null), emitter.compare(sign, a, b)), null, "b")


def _same(emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    a, b = args
    both = all_of(a.null, b.null)
    neither = all_of(negated(a.null), negated(b.null), emitter.compare("=", a, b))
    return Value(any_of(both, neither), "False", "b")


def _all(_emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    unknown = any_of(*(a.null for a in args))
    refuted = any_of(*(all_of(negated(a.code), negated(a.null)) for a in args))
    return Value(all_of(*(a.code for a in args)), all_of(unknown, negated(refuted)), "b")


def _any(_emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    code = any_of(*(a.code for a in args))
    unknown = any_of(*(a.null for a in args))
    return Value(code, all_of(unknown, negated(code)), "b")


def _not(_emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    (a,) = args
    return Value(all_of(negated(a.code), negated(a.null)), a.null, "b")


def _choose(values: Arguments, conditions: list[str]) -> Value:
    """The first value whose condition holds; the last value needs none."""
    code, null = choice(values, conditions)
    first = values[0]
    if first.form == "b" and null != "False":
        code = all_of(code, negated(null))  # a boolean's code must be false where it is null
    return Value(code, null, first.form, first.scale)


def _coalesce(emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    values = emitter.alike(args)
    return _choose(values, [negated(v.null) for v in values[:-1]])


def _case(emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    conditions = [emitter.named(c).code for c in args[0:-1:2]]
    return _choose(emitter.alike((*args[1::2], args[-1])), conditions)


def _nullif(emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    a, b = args
    equal = all_of(negated(a.null), negated(b.null), emitter.compare("=", a, b))
    code = all_of(a.code, negated(equal)) if a.form == "b" else a.code
    return Value(code, any_of(a.null, equal), a.form, a.scale)


def _in(emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    a, others = args[0], args[1:]
    equal = [all_of(negated(any_of(a.null, o.null)), emitter.compare("=", a, o)) for o in others]
    found = emitter.named(Value(any_of(*equal), "False", "b")).code
    unknown = any_of(a.null, *(o.null for o in others))
    return Value(found, all_of(unknown, negated(found)), "b")


def _extreme(sign: str, emitter: NumericEmitter, args: Arguments, _type: pa.DataType) -> Value:
    values = [emitter.named(v) for v in emitter.alike(args)]
    best = values[0]
    for value in values[1:]:
        better = all_of(negated(value.null), any_of(best.null, emitter.compare(sign, value, best)))
        code = f"({value.code} if {better} else {best.code})"
        best = emitter.named(replace(best, code=code, null=all_of(best.null, value.null)))
    return best


def _to_int32(emitter: NumericEmitter, args: Arguments, type_: pa.DataType) -> Value:
    whole = emitter.named(_rounding("trunc_i", emitter, args, type_))
    if args[0].form == "f":
        return replace(whole, code=f"min(max({whole.code}, -2147483648), 2147483647)")
    return Value(whole.code, any_of(whole.null, f"(not (-2147483648 <= {whole.code} <= 2147483647))"), "i")


CALLS: dict[str, Emit] = {
    **{sign: partial(_arithmetic, sign) for sign in ("+", "-", "*")},
    **{sign: partial(_compare, sign) for sign in ("=", "<>", "<", "<=", ">", ">=")},
    "/": _divide,
    "div": partial(_whole, "div"),
    "%": partial(_whole, "mod"),
    "neg": partial(_unary, "(-{})"),
    "abs": partial(_unary, "abs({})"),
    "<=>": _same,
    "and": _all,
    "or": _any,
    "not": _not,
    "is_null": lambda _emitter, args, _type: Value(args[0].null, "False", "b"),
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "in": _in,
    "greatest": partial(_extreme, ">"),
    "least": partial(_extreme, "<"),
    "sqrt": partial(_float_function, "sqrt_f"),
    "exp": partial(_float_function, "exp_f"),
    "ln": partial(_float_function, "ln_f", null="({} <= 0.0)"),
    "power": partial(_float_function, "power_f"),
    "floor": partial(_rounding, "floor_i"),
    "ceil": partial(_rounding, "ceil_i"),
    "to_float": lambda emitter, args, _type: emitter.as_float(args[0]),
    "to_int": partial(_rounding, "trunc_i"),
    "to_int32": _to_int32,
}
