"""The engine's expressions in words: `price[here] < price[last of D, 1 back]`."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from trimtab.engine.match.compile.registers import Fold, Register, RowLabel, RowRef
from trimtab.engine.match.ir.expression import Aggregate, Call, Const, Expr, MatchNumber, Opaque, Place, RowValue, Side
from trimtab.language.intervals import MICROSECOND, UNIT_US
from trimtab.rowwise.local import bare_column

# The larger, the tighter it binds.
_INFIX = {
    "or": 1,
    "and": 2,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">=", "<=>"), 4),
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/", "div", "%"), 6),
}
_ATOM = 9
_PARTS = {
    "rows": "number of rows",
    "count": "number of values",
    **dict.fromkeys(("sum", "fsum"), "sum"),
    "mean": "mean",
    "m2": "sum of squared distances",
    **dict.fromkeys(("min", "min_by"), "row of the smallest"),
    **dict.fromkeys(("max", "max_by"), "row of the largest"),
    "any": "row of the first that is not null",
    "first": "first row",
    "last": "last row",
    "and": "whether all hold",
    "or": "whether any holds",
    "values": "all values",
}


@dataclass(frozen=True)
class Wording:
    """Words for one query: its labels, and the texts of the columns that were made for it."""

    labels: tuple[str, ...]
    texts: Mapping[str, str]
    here: str = "here"

    def expression(self, expr: Expr) -> str:
        """An expression as text."""
        return self._bound(expr)[0]

    def terms(self, condition: Expr) -> list[str]:
        """A condition as the terms that AND connects, each as text."""
        if isinstance(condition, Call) and condition.function == "and":
            return [self._within(term, _INFIX["and"]) for term in condition.args]
        return [self.expression(condition)]

    def _bound(self, expr: Expr) -> tuple[str, int]:
        """The text, and how tightly it binds."""
        match expr:
            case Const(value):
                return _value(value), _ATOM
            case MatchNumber():
                return "match_number()", _ATOM
            case RowValue():
                return self._row_value(expr), _ATOM
            case Aggregate(function, labels, args, _, final):
                inside = ", ".join(self._inside(arg) for arg in args) or "*"
                over = f"{self._rows(labels)}, final" if final else self._rows(labels)
                return f"{function}({inside} over {over})", _ATOM
            case Opaque(sql, args):
                inside = ", ".join(f"${i} = {self.expression(arg)}" for i, arg in enumerate(args, start=1))
                return f"{{{sql} where {inside}}}", _ATOM
            case Call():
                return self._call(expr)
            case _:
                assert_never(expr)

    def _call(self, expr: Call) -> tuple[str, int]:
        name, args = expr.function, expr.args
        if name in _INFIX and len(args) >= 2:
            bound = _INFIX[name]
            first, *others = args
            parts = [self._within(first, bound), *(self._within(arg, bound + 1) for arg in others)]
            return f" {name} ".join(parts), bound
        if name == "not":
            return f"not {self._within(args[0], 4)}", 3
        if name == "is_null":
            return f"{self._within(args[0], 5)} is null", 4
        if name == "in":
            return f"{self._within(args[0], 5)} in ({', '.join(map(self.expression, args[1:]))})", 4
        if name == "neg":
            return f"-{self._within(args[0], _ATOM)}", 7
        if name == "case":
            pairs = zip(args[:-1:2], args[1::2], strict=True)
            whens = " ".join(f"when {self.expression(c)} then {self.expression(v)}" for c, v in pairs)
            return f"case {whens} else {self.expression(args[-1])} end", _ATOM
        return f"{name}({', '.join(map(self.expression, args))})", _ATOM

    def _within(self, expr: Expr, bound: int) -> str:
        text, own = self._bound(expr)
        return text if own >= bound else f"({text})"

    def _row_value(self, expr: RowValue) -> str:
        # The default stands for a row that isn't there; a null in one that is stays null.
        otherwise = "" if expr.default.value is None else f", else {_value(expr.default.value)}"
        return f"{self._sources(expr.sources)}[{self.place(expr.place)}{otherwise}]"

    def _inside(self, expr: Expr) -> str:
        """The argument of an aggregate, where every row is its own."""
        if isinstance(expr, RowValue) and expr.place == Place():
            return self._sources(expr.sources)
        return Wording(self.labels, self.texts, "it").expression(expr)

    def _sources(self, sources: tuple[str | Const, ...]) -> str:
        if len(sources) == 1:
            return self._source(sources[0])
        known = zip((*self.labels, "outside"), sources, strict=True)
        return "{" + ", ".join(f"{label}: {self._source(source)}" for label, source in known) + "}"

    def _source(self, source: str | Const) -> str:
        if isinstance(source, Const):
            return _value(source.value)
        text = self.texts.get(source, source)
        return text if bare_column(text) is not None else f"({text})"

    def place(self, place: Place) -> str:
        """A row of the match: `here`, `last of D, 1 back`, `1 row before`."""
        steps = f", {place.offset} {'on' if place.side is Side.FIRST else 'back'}" if place.offset else ""
        if place.labels is not None:
            row = f"{place.side.value.lower()} of {self._rows(place.labels)}{steps}"
        elif place.side is Side.FIRST:
            row = f"first row{steps}"
        else:
            row = ("last row" if place.final else self.here) + steps
        if place.final and place.labels is not None:
            row += ", final"
        if not place.shift:
            return row
        away = abs(place.shift)
        moved = f"{away} row{'s' if away > 1 else ''} {'before' if place.shift < 0 else 'after'}"
        return moved if row == "here" else f"{moved} {row}"

    def _rows(self, labels: frozenset[int] | None) -> str:
        return "the match" if labels is None else "|".join(self.labels[i] for i in sorted(labels))

    def register(self, register: Register) -> str:
        """What a register holds."""
        match register:
            case RowRef(labels, side, index, shift):
                return f"row of [{self.place(Place(labels, side, index, shift))}]"
            case RowLabel(labels, side, index, shift):
                return f"label of [{self.place(Place(labels, side, index, shift))}]"
            case Fold(part, labels, args):
                of = f" of {', '.join(map(self._inside, args))}" if args else ""
                return f"{_PARTS[part]}{of} over {self._rows(labels)}"
            case _:
                assert_never(register)


def _value(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case datetime.timedelta():
            return f"interval {length_text(value // MICROSECOND)}"
        case datetime.date():  # a datetime is one too
            return f"'{value}'"
        case _:
            return str(value)


def length_text(length_us: int) -> str:
    """A length of time in its largest whole unit.

    >>> length_text(600_000_000), length_text(1_000_000), length_text(1_500_000)
    ('10 minutes', '1 second', '1500 milliseconds')
    """
    units = ("DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
    unit = next(each for each in units if length_us % UNIT_US[each] == 0)
    count = length_us // UNIT_US[unit]
    return f"{count} {unit.lower()}{'' if count == 1 else 's'}"
