"""Conditions over Python values: slower than machine arithmetic, but for every function and type.

Used where a condition can't be computed with machine numbers: text made from several rows, lists, decimals of more than
18 digits. Null is None. Registers of aggregates hold all arguments, which are folded wherever the aggregate is read.
"""

from __future__ import annotations

from trimtab.engine.match.compile.registers import Fold
from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, MatchNumber, Opaque, RowValue, Source
from trimtab.engine.match.kernels.emit import CERTAIN_ROWS, Emitter


class ObjectEmitter(Emitter):
    """Writes conditions as calls on Python values."""

    def refer(self, value: object) -> str:
        """Code for a Python value."""
        self.kernel.values.append(value)
        return f"python_values[{len(self.kernel.values) - 1}]"

    def condition(self, expr: Expr) -> str:
        """Code that is true where the condition is."""
        return f"{self.value(expr)} is True"

    def value(self, expr: Expr) -> str:
        """Code for a value, None for null."""
        match expr:
            case Const(value):
                return self.refer(value)
            case RowValue():
                return self.row_value(expr)
            case MatchNumber():
                return "(number + 1)"
            case Aggregate(function, labels, args, type_):
                rows = self.updated(Fold("values", labels, args))
                return f"aggregate({function!r}, {rows}, {self.refer(type_)})"
            case Call(function, args):
                return f"SCALARS[{function!r}]({', '.join(self.value(a) for a in args)})"
            case Opaque(sql, args):
                return f"opaque({sql!r}, ({''.join(self.value(a) + ', ' for a in args)}))"

    def row_value(self, expr: RowValue) -> str:
        """The value of one row."""
        row = self.row(expr.place)
        if len(expr.sources) == 1:
            code = self.source(expr.sources[0], row)
        else:
            label = self.row_label(expr.place)
            code = self.source(expr.sources[-1], row)
            for number, source in reversed(list(enumerate(expr.sources[:-1]))):
                code = f"({self.source(source, row)} if {label} == {number} else {code})"
        if row in CERTAIN_ROWS:
            return code
        return f"({code} if {row} >= 0 else {self.refer(expr.default.value)})"

    def source(self, source: Source, row: str) -> str:
        """A column's value at a row, or the constant."""
        if isinstance(source, Const):
            return self.refer(source.value)
        return f"column{self.kernel.columns.index(source)}[{row}]"

    def fold(self, fold: Fold) -> str:
        """All arguments so far and this row's."""
        args = "".join(self.value(a) + ", " for a in fold.args)
        return f"{self.read(fold)} + (({args}),)"
