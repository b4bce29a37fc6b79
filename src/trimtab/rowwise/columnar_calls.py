"""Functions that give the same over columns as in Spark: which operands they take, and what they give.

For functions whose operands don't depend on each other; the others are cases of `columnar.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto

import pyarrow as pa
from sqlglot import exp

from trimtab.rowwise.operand_kinds import INTEGERS, PART, SMALL


class Operand(Enum):
    """What a function takes."""

    TEXT = auto()  # any text
    PRINTED = auto()  # any text or integer, which is printed the same
    WRITTEN = auto()  # a text that is written out, and not empty
    ANY_WRITTEN = auto()  # a text that is written out
    COUNT = auto()  # a number from 1 on that is written out
    TIMESTAMP = auto()
    ZONED = auto()  # a timestamp with a zone
    TIME = auto()  # a timestamp or a date
    DATE = auto()
    NUMBER = auto()  # an integer or a double

    def takes(self, kind: pa.DataType) -> bool:
        """Whether this is its type."""
        is_timestamp = pa.types.is_timestamp(kind)
        match self:
            case Operand.TEXT | Operand.WRITTEN | Operand.ANY_WRITTEN:
                return bool(kind == pa.string())
            case Operand.PRINTED:
                return bool(kind == pa.string() or kind in INTEGERS)
            case Operand.COUNT:
                return bool(kind == pa.int32())
            case Operand.TIMESTAMP:
                return bool(is_timestamp)
            case Operand.ZONED:
                return bool(is_timestamp and kind.tz is not None)
            case Operand.TIME:
                return bool(is_timestamp or kind == pa.date32())
            case Operand.DATE:
                return bool(kind == pa.date32())
            case Operand.NUMBER:
                return bool(kind in (*INTEGERS, pa.float64()))

    def wants(self) -> str:
        """What has to be written out, or ""."""
        return {
            Operand.WRITTEN: "a text that isn't written out, or that is empty",
            Operand.ANY_WRITTEN: "a text that isn't written out",
            Operand.COUNT: "a number that isn't written out, or that is below 1",
        }.get(self, "")

    def is_written(self, part: exp.Expr) -> bool:
        """Whether the operand is written out as it has to be."""
        if not self.wants():
            return True
        is_text = isinstance(part, exp.Literal) and part.is_string
        if self is Operand.COUNT:
            return isinstance(part, exp.Literal) and not is_text and part.name.isdigit() and int(part.name) > 0
        return is_text and bool(part.name or self is Operand.ANY_WRITTEN)


Call = tuple[Mapping[str, Operand], pa.DataType]
"""The operands of a function, by the names that sqlglot gives them, and its result."""

_TEXT, _OF_TIME, _OF_MOMENT = {"this": Operand.TEXT}, {"this": Operand.TIME}, {"this": Operand.TIMESTAMP}
CALLS: Mapping[type[exp.Expr], Call] = {
    exp.Length: (_TEXT, SMALL),
    exp.Upper: (_TEXT, pa.string()),
    exp.Lower: (_TEXT, pa.string()),
    exp.Trim: (_TEXT | {"expression": Operand.WRITTEN}, pa.string()),
    exp.Replace: (_TEXT | {"expression": Operand.WRITTEN, "replacement": Operand.ANY_WRITTEN}, pa.string()),
    exp.StrPosition: (_TEXT | {"substr": Operand.WRITTEN}, SMALL),
    exp.Left: (_TEXT | {"expression": Operand.COUNT}, pa.string()),
    exp.Right: (_TEXT | {"expression": Operand.COUNT}, pa.string()),
    exp.Pad: (_TEXT | {"expression": Operand.COUNT, "fill_pattern": Operand.WRITTEN}, pa.string()),
    exp.Repeat: (_TEXT | {"times": Operand.COUNT}, pa.string()),
    exp.MD5: (_TEXT, pa.string()),
    exp.Translate: (_TEXT | {"from_": Operand.WRITTEN, "to": Operand.WRITTEN}, pa.string()),
    exp.SplitPart: (_TEXT | {"delimiter": Operand.WRITTEN, "part_index": Operand.COUNT}, pa.string()),
    exp.StartsWith: (_TEXT | {"expression": Operand.TEXT}, pa.bool_()),
    exp.EndsWith: (_TEXT | {"expression": Operand.TEXT}, pa.bool_()),
    exp.Contains: (_TEXT | {"expression": Operand.TEXT}, pa.bool_()),
    exp.DPipe: ({"this": Operand.PRINTED, "expression": Operand.PRINTED}, pa.string()),
    exp.Concat: ({"expressions": Operand.PRINTED}, pa.string()),
    exp.ConcatWs: ({"expressions": Operand.TEXT}, pa.string()),
    exp.Year: (_OF_TIME, SMALL),
    exp.Quarter: (_OF_TIME, PART),
    exp.Month: (_OF_TIME, PART),
    exp.WeekOfYear: (_OF_TIME, PART),
    exp.Day: (_OF_TIME, PART),
    exp.DayOfWeek: (_OF_TIME, PART),
    exp.DayOfYear: (_OF_TIME, PART),
    exp.Hour: (_OF_TIME, PART),
    exp.Minute: (_OF_TIME, PART),
    exp.Second: (_OF_MOMENT, PART),
    exp.LastDay: ({"this": Operand.DATE}, pa.date32()),
    exp.StrToUnix: ({"this": Operand.ZONED}, pa.int64()),
    exp.UnixSeconds: ({"this": Operand.ZONED}, pa.int64()),
    exp.UnixMillis: ({"this": Operand.ZONED}, pa.int64()),
    exp.UnixMicros: ({"this": Operand.ZONED}, pa.int64()),
    exp.DateDiff: ({"this": Operand.TIME, "expression": Operand.TIME}, SMALL),
    exp.Floor: ({"this": Operand.NUMBER}, pa.int64()),
    exp.Ceil: ({"this": Operand.NUMBER}, pa.int64()),
}
NAMED: Mapping[str, Call] = {
    "btrim": ({"expressions": Operand.TEXT}, pa.string()),
    "weekday": ({"expressions": Operand.TIME}, PART),
}
"""Functions that sqlglot passes on by name."""
PASSED_OVER: Mapping[type[exp.Expr], frozenset[str]] = {
    exp.Trim: frozenset({"position"}),
    exp.Pad: frozenset({"is_left"}),
    exp.StrToUnix: frozenset({"format"}),
    exp.Concat: frozenset({"safe"}),
    exp.ConcatWs: frozenset({"safe", "coalesce", "flatten"}),
    exp.DPipe: frozenset({"safe"}),
}
"""What else sqlglot may keep with a function, which changes nothing of its operands."""
FIELDS = {"YEAR": SMALL} | dict.fromkeys(("QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE"), PART)
"""What EXTRACT may take out of a time; seconds are decimals in Spark."""
UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"})
"""Where date_trunc may cut a time off."""
LENGTHS = frozenset({"WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MONTH", "YEAR"})
"""Units of lengths of time that may be added to a time; those of a whole number of days also to a date."""
DAYS = frozenset({"WEEK", "DAY", "MONTH", "YEAR"})
