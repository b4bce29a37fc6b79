"""How large the integers of a kernel can get: machine code overflows where plain Python does not.

Before a batch runs as machine code, an upper bound of all numbers in its conditions and sums is computed from the
columns at hand. If it needs more than 64 bits, the same kernel runs as plain Python instead, which is exact.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, MatchNumber, RowValue
from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.lowered import DAY_US, form_of, int_of

LIMIT = 2**63 - 1
_SUMS = frozenset({"sum", "avg"})
_GROWING = frozenset({"+", "-", "*", "neg", "abs", "div", "%"})


@dataclass(frozen=True, slots=True)
class Size:
    """The largest magnitude of a value as the kernel holds it; `form` and `scale` as in `lowered.Value`."""

    most: int
    form: str
    scale: int = 0


class Bounds:
    """Sizes of expressions.

    `column` gives a column's largest magnitude, `rows` is the most rows that a key has at hand, `carried` the largest
    sum in the state of a partial match.
    """

    def __init__(self, column: Callable[[str], int], rows: int, carried: int = 0) -> None:
        self.column, self.rows, self.carried = column, rows, carried
        self.largest = 0

    def fit(self, exprs: Iterable[Expr]) -> bool:
        """Whether the expressions, and everything inside them, fit 64 bits."""
        for expr in exprs:
            with contextlib.suppress(NotCompilable):  # then it isn't part of the kernel
                self.size(expr)
        return self.largest <= LIMIT

    def size(self, expr: Expr) -> Size:
        """The size of an expression's value; `largest` takes in the sizes of everything inside it."""
        match expr:
            case Const():
                return self._seen(_constant(expr))
            case RowValue():
                return self._seen(self._row_value(expr))
            case MatchNumber():
                return Size(self.rows, "i")
            case Aggregate():
                return self._aggregate(expr)
            case Call(function, args, type_):
                return self._call(function, [self.size(arg) for arg in args], form_of(type_))
        raise NotCompilable("no number")

    def _seen(self, size: Size) -> Size:
        if size.form not in ("f", "s"):
            self.largest = max(self.largest, size.most)
        return size

    def _row_value(self, expr: RowValue) -> Size:
        form, scale = form_of(expr.type)
        if form in ("f", "s", "b"):
            return Size(0, form)
        constants = [Const(s.value, expr.type) for s in (*expr.sources, expr.default) if isinstance(s, Const)]
        columns = [self.column(s) for s in expr.sources if isinstance(s, str)]
        return Size(max(*(_constant(c).most for c in constants), *columns, 0), form, scale)

    def _aggregate(self, expr: Aggregate) -> Size:
        sizes = [self.size(arg) for arg in expr.args]
        if expr.function in _SUMS and sizes[0].form != "f":
            total = self._seen(Size(sizes[0].most * self.rows + self.carried, sizes[0].form, sizes[0].scale))
            return total if expr.function == "sum" else Size(0, "f")
        if expr.function.startswith(("count", "approx")):
            return Size(self.rows, "i")
        if expr.function.startswith(("stddev", "var", "avg")):
            return Size(0, "f")
        return sizes[0] if sizes else Size(self.rows, "i")

    def _call(self, function: str, sizes: list[Size], answer: tuple[str, int]) -> Size:
        form, scale = answer
        if function == "case":
            sizes = [*sizes[1::2], sizes[-1]]
        if function == "*" and form != "f":
            return self._seen(Size(math.prod(size.most for size in sizes), form, scale))
        alike = self._alike(sizes)
        if form in ("f", "b", "s"):
            return Size(0, form)
        if function in ("+", "-"):
            return self._seen(Size(sum(size.most for size in alike), form, max(size.scale for size in alike)))
        if function in ("floor", "ceil", "to_int", "to_int32") and alike[0].form == "f":
            return Size(LIMIT, "i")  # what doesn't fit is the nearest that does
        most = max((size.most for size in alike), default=0)
        return self._seen(Size(most, form, max((size.scale for size in alike), default=scale)))

    def _alike(self, sizes: list[Size]) -> list[Size]:
        """As `NumericEmitter.alike`: decimals are brought to one scale, dates beside timestamps to microseconds."""
        forms = {size.form for size in sizes}
        if "f" in forms or not sizes:
            return sizes
        scale = max(size.scale for size in sizes)
        days = DAY_US if forms >= {"date", "i"} else 1
        found = [
            Size(s.most * 10 ** (scale - s.scale) * (days if s.form == "date" else 1), s.form, scale) for s in sizes
        ]
        for size in found:
            self._seen(size)
        return found


def _constant(const: Const) -> Size:
    form, scale = form_of(const.type)
    if const.value is None or form in ("f", "s", "b"):
        return Size(0, form, scale)
    if form == "d":
        return Size(abs(int(const.value.scaleb(scale))) if hasattr(const.value, "scaleb") else LIMIT, form, scale)
    return Size(abs(int_of(const.value)), form)


def computes(expr: Expr) -> bool:
    """Whether anything in it could grow: arithmetic, sums, or numbers of different scales beside each other."""
    match expr:
        case Aggregate(function, _, args):
            return function in _SUMS or any(computes(arg) for arg in args)
        case Call(function, args):
            mixed = len({(arg.type.id, getattr(arg.type, "scale", 0)) for arg in args}) > 1
            return function in _GROWING or mixed or any(computes(arg) for arg in args)
    return False
