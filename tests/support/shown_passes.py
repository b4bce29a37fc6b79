"""What each pass of the language gives, as text for the fixtures of `tests/language/fixtures`.

Trees are SQL again. In a resolved one `{price @1}` is a value read at place 1, `LABEL` in it the label of
that row, `#0` call 0, and `KEY 0` grouping key 0; the tables of places, calls and keys follow below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp
from sqlglot.generators.spark import SparkGenerator

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.keyed.query import KeyedQuery
from trimtab.engine.match.ir.query import MatchQuery, Skip, SkipPastLast, SkipTo, SkipToNext
from trimtab.engine.operator import Description
from trimtab.engine.windows.assign import ClockWindow, SessionWindow
from trimtab.engine.windows.grouped import GroupQuery
from trimtab.engine.windows.layout import Frame
from trimtab.engine.windows.over import OverQuery
from trimtab.language.compiled import Query
from trimtab.language.dialect import (
    Framed,
    MatchRecognize,
    SkipClause,
    Subset,
    TableArgument,
    TableFunction,
    WithinClause,
)
from trimtab.language.lower import Lowered
from trimtab.language.marks import CallMark, KeyMark, LabelOf, Leaf, MatchNumberMark, ResolvedExpression
from trimtab.language.merge import Context
from trimtab.language.parse import Parsed
from trimtab.language.relation import Relation
from trimtab.language.resolve import Resolved
from trimtab.language.resolve_function import ResolvedFunction
from trimtab.language.resolve_group import ResolvedGroup
from trimtab.language.resolve_match import ResolvedMatch
from trimtab.language.resolve_windows import ResolvedOver
from trimtab.language.unnest import Chain
from trimtab.language.window_calls import Called
from trimtab.language.wording import Wording, length_text
from trimtab.rowwise.local import Columns, IntakeStep


def shown(value: Any) -> str:
    """The result of a pass, as lines of text."""
    return "\n".join(_SHOWN[type(value)](value))


# Trees ---------------------------------------------------------------------------------------------


def _match_recognize(writer: Any, node: exp.Expr) -> str:
    order = node.args.get("order")
    define = [f"{writer.sql(each, 'alias')} AS {writer.sql(each, 'this')}" for each in node.args.get("define") or ()]
    lines = [
        ("PARTITION BY", node.args.get("partition_by")),
        ("ORDER BY", order.expressions if order else None),
        ("MEASURES", node.args.get("measures")),
        ("ROWS:", node.args.get("rows")),
        ("SKIP", node.args.get("skip")),
        ("PATTERN AT", node.args.get("pattern")),
        ("WITHIN", node.args.get("within")),
        ("SUBSET", node.args.get("subset")),
        ("DEFINE", define),
    ]
    parts = [
        f"{word} {writer.expressions(sqls=found, flat=True) if isinstance(found, list) else writer.sql(found)}"
        for word, found in lines
        if found
    ]
    alias = node.args.get("alias")
    named = f" AS {alias.name}" if alias and alias.name else ""
    return "\n".join(["", f"MATCH_RECOGNIZE{named}", *(f"  {part}" for part in parts)]) + "\n"


def _table_function(writer: Any, node: exp.Expr) -> str:
    alias = node.args.get("alias")
    call = f"{node.name}({writer.expressions(node, flat=True)})"
    return call + (f" AS {alias.name}" if alias is not None and alias.name else "")


def _table_argument(writer: Any, node: exp.Expr) -> str:
    parts = [f"TABLE({writer.sql(node, 'this')})"]
    for word, key in (("PARTITION BY", "partition_by"), ("ORDER BY", "order")):
        if node.args.get(key):
            parts.append(f"{word} ({writer.expressions(sqls=node.args[key], flat=True)})")
    return " ".join(parts)


class _Writer(SparkGenerator):
    TRANSFORMS = {  # noqa: RUF012 - as in sqlglot
        **SparkGenerator.TRANSFORMS,
        MatchRecognize: _match_recognize,
        exp.Alias: lambda writer, node: f"{writer.sql(node, 'this')} AS {writer.sql(node, 'alias') or '?'}",
        SkipClause: lambda _, node: f"{node.args['kind']} {node.this.name if node.this else ''}".strip(),
        WithinClause: lambda writer, node: f"{writer.sql(node, 'this')} {node.args.get('unit') or ''}".strip(),
        Subset: lambda writer, node: f"{writer.sql(node, 'this')} = ({writer.expressions(node, flat=True)})",
        Framed: lambda writer, node: f"{node.args['kind']} {writer.sql(node, 'this')}",
        TableFunction: _table_function,
        TableArgument: _table_argument,
        Leaf: lambda writer, node: f"{{{writer.sql(node, 'this')} @{node.args['place']}}}",
        LabelOf: lambda *_: "LABEL",
        MatchNumberMark: lambda *_: "MATCH_NUMBER()",
        CallMark: lambda _, node: f"#{node.args['number']}",
        KeyMark: lambda _, node: f"KEY {node.args['number']}",
    }


def written(tree: exp.Expr) -> str:
    """A tree as SQL."""
    return str(_Writer(dialect="spark").generate(tree)).strip()


# Values --------------------------------------------------------------------------------------------


def _aligned(rows: Iterable[Sequence[str]]) -> list[str]:
    table = [list(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]


def _part(title: str, lines: Sequence[str]) -> list[str]:
    return [title, *(f"  {line}" for line in lines)] if lines else []


def _parsed(value: Parsed) -> list[str]:
    patterns = [f"{start}: {text}" for start, text in value.patterns.items()]
    return [*written(value.tree).splitlines(), *_part("patterns", patterns)]


def _chain(value: Chain) -> list[str]:
    lines = [f"table {value.source}"]
    for layer in (*value.inner, value.operator, *value.outer):
        if isinstance(layer, exp.Expr):
            lines += f"operator {written(layer)}".splitlines()
        elif layer is not None:
            parts = [
                f"where {written(layer.where)}" if layer.where is not None else "",
                "select " + ", ".join(map(written, layer.columns)) if layer.columns is not None else "",
                f"called {', '.join(sorted(layer.aliases)) or 'nothing'}" if layer.aliases is not None else "",
            ]
            lines.append(" ".join(part for part in parts if part))
    return lines


def _relation(value: Relation) -> list[str]:
    lines = _aligned((each.name, str(each.type), written(each.expression)) for each in value.definitions)
    where = [f"where {written(value.where)}"] if value.where is not None else []
    return [*lines, *where, *([f"called {', '.join(sorted(value.aliases))}"] if value.aliases else [])]


def _merged(value: Context) -> list[str]:
    return _relation(value.relation)


def _resolved(value: Resolved) -> list[str]:
    match value.operator:
        case ResolvedMatch() as found:
            return _resolved_match(found)
        case ResolvedFunction() as found:
            return _resolved_function(found)
        case ResolvedOver() as found:
            return _resolved_over(found)
        case ResolvedGroup() as found:
            return _resolved_group(found)
        case _:
            return ["no operator"]


def _resolved_match(found: ResolvedMatch) -> list[str]:
    words = Wording(found.scope.shown, {})
    conditions = [(found.scope.shown[label], each) for label, each in found.conditions.items()]
    within = [f"within {found.within_us} us"] if found.within_us is not None else []
    return [
        f"labels {', '.join(found.scope.shown)}",
        f"rows {found.rows.value}",
        f"skip {_skip(found.skip, found.scope.shown)}",
        f"partition {', '.join(each.name for each in found.partition)}".rstrip(),
        f"order {', '.join(each.definition.name for each in found.order)}".rstrip(),
        *within,
        *_part("define", [line for name, each in conditions for line in _expression(name, each, words)]),
        *_part("measures", [line for name, each in found.measures for line in _expression(name, each, words)]),
    ]


def _skip(skip: Skip, labels: Sequence[str]) -> str:
    match skip:
        case SkipPastLast():
            return "past the last row"
        case SkipToNext():
            return "to the next row"
        case SkipTo(side, found):
            return f"to the {side.value.lower()} {'|'.join(labels[i] for i in sorted(found))}"


def _expression(name: str, found: ResolvedExpression, words: Wording) -> list[str]:
    lines = [f"{name}: {written(found.tree)}"]
    lines += [f"  @{number} {words.place(place)}" for number, place in enumerate(found.places) if number]
    for number, call in enumerate(found.aggregates):
        args = ", ".join(map(written, call.args)) or "*"
        rows = "the match" if call.labels is None else "|".join(words.labels[i] for i in sorted(call.labels))
        lines.append(f"  #{number} {call.function}({args}) over {rows}{', final' if call.final else ''}")
    return lines


def _resolved_function(found: ResolvedFunction) -> list[str]:
    return [
        f"{found.name} {found.description}",
        f"partition {', '.join(each.name for each in found.partition)}".rstrip(),
        f"order {', '.join(each.definition.name for each in found.order)}".rstrip(),
        f"looks at {', '.join(found.columns)}",
        f"called {found.alias}",
    ]


def _call(name: str, function: str, args: Iterable[str], parameters: Iterable[float] = ()) -> str:
    extra = ", ".join(map(str, parameters))
    return f"{name} {function}({', '.join(args) or '*'})" + (f" with {extra}" if extra else "")


def _called(number: int, called: Called) -> str:
    return _call(f"#{number}", called.function, map(written, called.args), called.parameters)


def _frame(frame: Frame) -> str:
    return f"{frame.unit.value} from {'the first' if frame.preceding is None else f'{frame.preceding} before'}"


def _window(window: ClockWindow | SessionWindow) -> str:
    if isinstance(window, SessionWindow):
        return f"session with gaps of {length_text(window.gap_us)}"
    slide = f" every {length_text(window.slide_us)}" if window.slide_us != window.size_us else ""
    return f"window of {length_text(window.size_us)}{slide}"


def _trees(columns: Sequence[tuple[str, exp.Expr]]) -> list[str]:
    return _aligned((name, written(tree)) for name, tree in columns)


def _resolved_over(found: ResolvedOver) -> list[str]:
    calls = [
        f"{_called(number, call.called)} by {', '.join(map(written, call.over.partition)) or 'nothing'}"
        f" in order of {', '.join(map(written, call.over.order))}, {_frame(call.over.frame)}"
        for number, call in enumerate(found.calls)
    ]
    where = [f"where {written(found.condition)}"] if found.condition is not None else []
    return [*_part("select", _trees(found.columns)), *where, *_part("calls", calls)]


def _resolved_group(found: ResolvedGroup) -> list[str]:
    return [
        *_part("select", _trees(found.columns)),
        *([f"having {written(found.condition)}"] if found.condition is not None else []),
        *_part("keys", [f"KEY {number} {written(key)}" for number, key in enumerate(found.keys)]),
        f"{_window(found.window)} by {written(found.time)}",
        *_part("calls", [_called(number, call) for number, call in enumerate(found.calls)]),
    ]


def _columns(columns: Columns, types: Sequence[pa.DataType], where: str | None) -> list[str]:
    rows = ((name, str(type_), text) for (name, text), type_ in zip(columns, types, strict=True))
    return [*_aligned(rows), *([f"where {where}"] if where else [])]


def _intake(step: IntakeStep) -> list[str]:
    return _part("intake", _columns(step.columns, step.types, step.where))


def _operator(operator: Description, intake: IntakeStep) -> list[str]:
    match operator:
        case MatchQuery():
            return _match_query(operator, Wording(operator.labels, dict(intake.columns)))
        case OverQuery(partition, order, calls, keep):
            computed = [f"{_call(each.name, each.function, each.args)}, {_frame(each.frame)}" for each in calls]
            return _part("over", [*_keys(partition, order), *computed, f"keep {_names(keep)}"])
        case GroupQuery(partition, time, window, groups):
            computed = [_call(each.name, each.function, each.args, each.parameters) for each in groups]
            return _part("group", [*_keys(partition), f"{_window(window)} by {time}", *computed])
        case KeyedQuery(name, description, partition, order, columns):
            looks = _names([known if known == column else f"{known} = {column}" for known, column in columns])
            return _part(name, [str(description), *_keys(partition, order), f"looks at {looks}"])
        case _:
            return ["no operator"]


def _match_query(operator: MatchQuery, words: Wording) -> list[str]:
    conditions = [
        f"{label}: {'always' if condition is None else words.expression(condition)}"
        for label, condition in zip(operator.labels, operator.conditions, strict=True)
    ]
    slots = [f"slot{number}: {words.expression(slot)}" for number, slot in enumerate(operator.slots)]
    return _part("match", [*conditions, *slots, *_keys(operator.partition, operator.order)])


def _keys(partition: Sequence[str], order: Sequence[OrderKey] = ()) -> list[str]:
    by = _names([each.column + (" descending" if each.descending else "") for each in order])
    return [f"partition {_names(partition)}", *([f"order {by}"] if order else [])]


def _names(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"


def _lowered(value: Lowered) -> list[str]:
    intake = value.columns.step()
    return [*_intake(intake), *_operator(value.operator, intake), *_part("output", _relation(value.output))]


def _query(value: Query) -> list[str]:
    operator, last, lines = value.operator, value.finish, list[str]()
    if isinstance(operator, MatchQuery):
        words = Wording(operator.labels, dict(value.intake.columns))
        slots = [f"slot{number}: {words.expression(slot)}" for number, slot in enumerate(operator.slots)]
        lines = _part("match", [*slots, f"keep {_names(operator.keep)}"])
    return [
        f"source {value.source}",
        *_intake(value.intake),
        *lines,
        *_part("finish", _columns(last.columns, last.types, last.where)),
    ]


_SHOWN: dict[type, Callable[[Any], list[str]]] = {
    Parsed: _parsed,
    Chain: _chain,
    Context: _merged,
    Resolved: _resolved,
    Lowered: _lowered,
    Query: _query,
}
