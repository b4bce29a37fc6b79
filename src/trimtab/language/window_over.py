"""SELECT with OVER: which calls the engine computes, and what is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.columns.order import OrderKey
from trimtab.engine.windows.over import OverQuery
from trimtab.engine.windows.over_call import FUNCTIONS, OverCall
from trimtab.language.context import Context
from trimtab.language.mistakes import placed
from trimtab.language.oracle import type_of
from trimtab.language.relation import Definition, Relation, column, spark_text
from trimtab.language.window_calls import add_arguments, is_aggregate, read_call
from trimtab.language.window_frames import Over, read_over


@dataclass(slots=True)
class OverReader:
    """Reads the SELECT list, and replaces every window call by a column of the operator's output."""

    context: Context
    named: dict[str, exp.Window]
    calls: list[OverCall] = field(default_factory=list)
    keep: dict[str, None] = field(default_factory=dict)
    shared: tuple[tuple[str, ...], tuple[OrderKey, ...]] | None = None

    def output(self, tree: exp.Expr) -> exp.Expr:
        """An expression of the SELECT list over the operator's output."""
        return tree.transform(self._change)

    def _change(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return placed(column(self._call(node)), node)
        if is_aggregate(node):
            message = "an aggregate beside window functions needs its own OVER"
            hint = "add OVER (...), or GROUP BY a window"
            raise self.context.error("query.window-mixed", message, node, hint)
        if isinstance(node, exp.Column):
            name = self.context.add(node)
            self.keep[name] = None
            return placed(column(name), node)
        return node

    def _call(self, node: exp.Window) -> str:
        over = read_over(self.context, node, self.named)
        called = read_call(self.context, node.this, FUNCTIONS, "with OVER")
        args, types = add_arguments(self.context, called)
        if called.function == "lag" and len(types) > 1 and not _fits(types[1], types[0]):
            message = f"the default is {types[1]}, and the value is {types[0]}"
            raise self.context.error("query.type", message, called.args[1], "cast one of them")
        self._check_shared(node, over)
        offset = int(called.parameters[0]) if called.function == "lag" else 1
        call = OverCall(called.function, args, over.frame, "", offset)
        for known in self.calls:
            if replace(known, name="") == call:
                return known.name
        self.calls.append(replace(call, name=f"__w{len(self.calls)}"))
        return self.calls[-1].name

    def _check_shared(self, node: exp.Window, over: Over) -> None:
        """Rows flow through one keyed step: all windows have to agree on key and order."""
        mine = (over.partition, over.order)
        if self.shared is not None and self.shared != mine:
            message = "all windows of a SELECT need the same PARTITION BY and ORDER BY"
            raise self.context.error("query.window-mixed", message, node, "use two queries; frames may differ")
        self.shared = mine


def _fits(type_: pa.DataType, wanted: pa.DataType) -> bool:
    numbers = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal)
    return bool(
        type_ == wanted or pa.types.is_null(type_) or all(any(kind(t) for kind in numbers) for t in (type_, wanted))
    )


def compile_over(select: exp.Select, context: Context) -> tuple[OverQuery, Relation]:
    """The operator of a SELECT with OVER, and its output.

    Raises QueryError.
    """
    named = {each.this.name.lower(): each for each in select.args.get("windows") or ()}
    reader = OverReader(context, named)
    found: list[tuple[str, exp.Expr]] = []
    for node in select.expressions:
        if node.is_star:
            found += [(each.name, column(each.name)) for each in context.relation.projected([node]).definitions]
        else:
            inner = node.this if isinstance(node, exp.Alias) else node
            found.append((projected_name(node), inner))
    trees = [(name, reader.output(tree)) for name, tree in found]
    qualify = select.args.get("qualify")
    where = None if qualify is None else reader.output(without_aliases(qualify.this, select, context))
    assert reader.shared is not None
    partition, order = reader.shared
    operator = OverQuery(partition, order, tuple(reader.calls), tuple(reader.keep))
    base = operator.output_schema(intake_schema(context))
    definitions = tuple(Definition(name, tree, type_of(context.sql, tree, base)) for name, tree in trees)
    if where is not None:
        check_condition(context, "QUALIFY", where, base)
    return operator, Relation(context.sql, base, definitions, where)


def projected_name(node: exp.Expr) -> str:
    """What Spark calls a column of the SELECT list: without an alias, by its text."""
    return node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else spark_text(node)


def without_aliases(tree: exp.Expr, select: exp.Select, context: Context) -> exp.Expr:
    """A condition behind the SELECT list may name its columns, where the input has none of that name."""
    known = {name.lower() for name in context.schema.names}
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() in known:
            return node
        meant = aliases.get(node.name.lower())
        return node if meant is None else placed(exp.Paren(this=meant.copy()), node)

    return tree.transform(change)


def check_condition(context: Context, clause: str, tree: exp.Expr, base: pa.Schema) -> None:
    """Raise if the expression over the operator's output isn't a condition."""
    type_ = type_of(context.sql, tree, base)
    if type_ not in (pa.bool_(), pa.null()):
        raise context.error(
            "query.type", f"{clause} needs a condition, this is {type_}", tree, "compare it with something"
        )


def intake_schema(context: Context) -> pa.Schema:
    """The columns that the operator will see."""
    intake = context.intake()
    return pa.schema([(name, type_) for (name, _), type_ in zip(intake.columns, intake.types, strict=True)])
