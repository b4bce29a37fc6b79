"""`explain`: a compiled query as text, part by part, in the order in which rows pass through them."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from trimtab.engine.keyed.description import arguments
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.match.compile.program import Program, compile_pattern
from trimtab.engine.match.compile.registers import Bank
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import MatchQuery, Rows, SkipPastLast, SkipTo, SkipToNext
from trimtab.engine.match.kernels.codegen import generate
from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.plan import Generated, traits_of
from trimtab.engine.operator import Description
from trimtab.engine.selection import Selection
from trimtab.engine.windows.assign import ClockWindow
from trimtab.engine.windows.grouped import GroupQuery
from trimtab.engine.windows.layout import Unit
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import NUMBERS, OverCall
from trimtab.language.compiled import Query
from trimtab.language.wording import Wording, length_text
from trimtab.rowwise.local import Finish, IntakeStep
from trimtab.rowwise.types import is_time

_BANKS = {Bank.INT: "integer", Bank.FLOAT: "float", Bank.OBJECT: "object"}


def explain(query: Query, *, reading: str = "") -> str:
    """The parts of a query: source, work on rows, operator, output. `reading`: what is said of how the source is read.

    >>> from trimtab.language.compile import compile_query
    >>> tables = {"ticks": pa.schema([("ts", pa.timestamp("us")), ("price", pa.float64())])}
    >>> print(explain(compile_query("SELECT price * 2 AS double FROM ticks WHERE price > 1", tables)))
    SOURCE
      ticks
    <BLANKLINE>
    EACH ROW (Spark SQL: in Spark's JVM on a cluster, in DuckDB here)
      __c0   double  price * 2
      where          price > 1
    <BLANKLINE>
    OUTPUT
      double  double  __c0
    """
    parts = [
        _part("SOURCE", [query.source, *([reading] if reading else [])]),
        _part("EACH ROW (Spark SQL: in Spark's JVM on a cluster, in DuckDB here)", _columns(query.intake)),
        *_operator_parts(query.operator, query.intake),
        _part("OUTPUT", _columns(query.finish)),
    ]
    return "\n\n".join(parts)


def kernel_of(operator: Description) -> Generated | None:
    """The kernel that runs a pattern over columns without nulls and NaN; None: the operator isn't a pattern."""
    return generate(operator, _program(operator), frozenset(), False) if isinstance(operator, MatchQuery) else None


def _operator_parts(operator: Description, intake: IntakeStep) -> list[str]:
    """The parts between the work on rows and the output; `intake` says what the operator's columns are."""
    match operator:
        case Selection():
            return []
        case MatchQuery():
            return _match_parts(operator, dict(intake.columns))
        case GroupQuery():
            return [_part("WINDOWS", _aligned(_group_lines(operator)))]
        case OverQuery():
            types = {name: type_ for (name, _), type_ in zip(intake.columns, intake.types, strict=True)}
            return [_part("WINDOWS", _aligned(_over_lines(operator, types)))]
        case KeyedQuery():
            return [_part("OPERATOR", _aligned(_keyed_lines(operator)))]
    raise NotImplementedError(f"explain doesn't know {operator}")


def _keys_and_order(operator: MatchQuery | OverQuery | KeyedQuery) -> list[tuple[str, str]]:
    order = ", ".join(key.column + (" desc" if key.descending else "") for key in operator.order)
    return [_keys(operator), ("order", order or "as rows come")]


def _keys(operator: Description) -> tuple[str, str]:
    return "keys", ", ".join(operator.partition) or "one for all rows"


def _match_parts(match: MatchQuery, texts: dict[str, str]) -> list[str]:
    program = _program(match)
    generated = generate(match, program, frozenset(), False)
    words = Wording(match.labels, texts)
    conditions: list[tuple[str, str]] = []
    for label, condition in zip(match.labels, match.conditions, strict=True):
        first, *others = ["always"] if condition is None else words.terms(condition)
        conditions += [(label, first), *(("", f"and {term}") for term in others)]
    shown = Wording(match.labels, texts, "last row") if match.rows is Rows.ONE else words
    slots = [(f"slot{i}", str(slot.type), shown.expression(slot)) for i, slot in enumerate(match.slots)]
    registers = [(_BANKS[each.bank], words.register(each)) for each in generated.layout.registers]
    return [
        _part("PATTERN (position, label -> what may follow, best first)", program.dump().splitlines(), indent=""),
        _part("CONDITIONS", _aligned(conditions)),
        _part("A PARTIAL MATCH REMEMBERS", ["its position, its first and its last row", *_aligned(registers)]),
        _part("RUNS", _aligned(_runs(match, program, generated))),
        _part("MEASURES", _aligned(slots) or ["none"]),
    ]


def _program(match: MatchQuery) -> Program:
    return compile_pattern(match.pattern, match.labels)


def _runs(match: MatchQuery, program: Program, generated: Generated) -> list[tuple[str, str]]:
    """How the operator runs, a line per decision."""
    traits = traits_of(match)
    lines = [*_keys_and_order(match), ("rows", match.rows.value.lower()), ("then", _skip_text(match))]
    if match.within_us is not None:
        lines.append(("within", f"{length_text(match.within_us)}, by {match.time_column}"))
    if generated.deterministic:
        count = generated.configurations
        threads = f"deterministic automaton with {count} configuration{'' if count == 1 else 's'}"
    else:
        threads = f"a list of threads: {_why_threads(match, program)}"
    lines.append(("threads", threads))
    kernel = "compiled to machine code, from enough rows on"
    if not generated.compiled:
        kernel = f"interpreted: {_why_interpreted(match, program)} has no machine form"
    lines.append(("kernel", kernel))
    lines.append(("measures", "from paths: every row of a match is kept" if generated.paths else "from registers"))
    reach = [(traits.lookback, "back"), (traits.lookahead, "ahead")]
    found = [f"{rows} row{'' if rows == 1 else 's'} {side}" for rows, side in reach if rows]
    lines.append(("looks", ", ".join(found) or "at the match only"))
    return lines


def _why_threads(match: MatchQuery, program: Program) -> str:
    """The first reason why a deterministic automaton can't be used."""
    traits = traits_of(match)
    reasons = (
        (match.within_us is not None, "WITHIN ends attempts one by one"),
        (traits.paths, "the output needs every row of a match"),
        (traits.sequential, "a condition asks for the number of the match"),
        (not isinstance(match.skip, SkipPastLast), "matches may overlap"),
        (bool(program.uses & {Anchor.END, Anchor.TIMEOUT}), "the pattern has an anchor at its end"),
    )
    otherwise = "conditions tell attempts at the same position apart, or there are too many arrangements"
    return next((reason for holds, reason in reasons if holds), otherwise)


def _why_interpreted(match: MatchQuery, program: Program) -> str:
    try:
        KernelWriter(match, program, frozenset(), False, objects=False)
    except NotCompilable as reason:
        return str(reason)
    raise AssertionError("the query compiles")


def _skip_text(match: MatchQuery) -> str:
    match match.skip:
        case SkipPastLast():
            return "skip past last row"
        case SkipToNext():
            return "skip to next row"
        case SkipTo(side, _, name):
            return f"skip to {side.value.lower()} {name.removeprefix(side.value).strip()}"


def _group_lines(group: GroupQuery) -> list[tuple[str, str]]:
    window = group.window
    if isinstance(window, ClockWindow):
        what = f"of {length_text(window.size_us)}"
        if window.slide_us != window.size_us:
            what += f", one every {length_text(window.slide_us)}"
        if window.offset_us:
            what += f", {length_text(window.offset_us)} past the epoch"
    else:
        what = f"until a pause of {length_text(window.gap_us)}"
    inside = [", ".join([*call.args, *map(str, call.parameters)]) for call in group.calls]
    return [
        _keys(group),
        ("windows", f"{what}, by {group.time_column}"),
        ("leave", f"once the watermark has passed their end, as {group.start_name}, {group.end_name} and"),
        *((call.name, f"{call.function}({args})") for call, args in zip(group.calls, inside, strict=True)),
    ]


def _over_lines(over: OverQuery, types: dict[str, pa.DataType]) -> list[tuple[str, str]]:
    timed = bool(over.order) and is_time(types[over.order[0].column])
    texts = [f"{call.function}({', '.join(call.args)}) over {_frame_text(call, timed)}" for call in over.calls]
    calls = [(call.name, text) for call, text in zip(over.calls, texts, strict=True)]
    return [*_keys_and_order(over), ("leave", "a row out per row in, with"), *calls]


def _keyed_lines(keyed: KeyedQuery) -> list[tuple[str, str]]:
    description = keyed.description
    given = [f"{field.name} = {getattr(description, field.name)!r}" for field in arguments(type(description))]
    splits = "may be dealt out to several engines, for their states merge" if description.merges else "stay together"
    return [
        ("function", f"{keyed.name}({', '.join(given)})"),
        *_keys_and_order(keyed),
        ("reads", ", ".join(name for name, _ in keyed.columns)),
        ("keeps", _fields(description.state) or "nothing"),
        ("gives", _fields(description.output)),
        ("rows", f"of a key {splits}"),
    ]


def _fields(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def _frame_text(call: OverCall, timed: bool) -> str:
    if call.function == "lag":
        return f"the row {call.offset} back"
    unit, preceding = call.frame.unit, call.frame.preceding
    if call.function in NUMBERS or preceding is None:
        return "all rows so far"
    if unit is Unit.ROWS:
        return f"the row and {preceding} before it"
    return f"the rows within {length_text(int(preceding)) if timed else preceding}"


def _columns(step: IntakeStep | Finish) -> list[str]:
    rows = [(name, str(type_), text) for (name, text), type_ in zip(step.columns, step.types, strict=True)]
    return _aligned(rows if step.where is None else [*rows, ("where", "", step.where)])


def _aligned(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """The rows as lines, every column but the last as wide as its widest."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)][:-1]
    return ["  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows]


def _part(title: str, lines: Iterable[str], *, indent: str = "  ") -> str:
    return "\n".join([title, *(f"{indent}{line}".rstrip() for line in lines)])
