"""SELECT around SELECT: the row-wise layers of a query, merged, and the one operator between them.

Inside out: a table, row-wise sub-selects over it, at most one MATCH_RECOGNIZE, window or table
function, row-wise sub-selects over that. What isn't row-wise around it would need a second pass over
the output, and is refused with an explanation.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from trimtab.engine.selection import Selection
from trimtab.errors import QueryError
from trimtab.language.compiled import Query
from trimtab.language.context import Context
from trimtab.language.dialect import MatchRecognize, TableFunction
from trimtab.language.match import Matched, compile_match, node_start
from trimtab.language.mistakes import did_you_mean, mistake
from trimtab.language.relation import Relation, listing, spark_text, table_relation
from trimtab.rowwise.local import Finish

if TYPE_CHECKING:
    from trimtab.engine.operator import Description

_PLAIN = {"expressions", "from_", "where", "with_", "match", "kind", "hint"}
_CLAUSES = {
    "group": "GROUP BY",
    "having": "HAVING",
    "order": "ORDER BY",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "distinct": "DISTINCT",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "qualify": "QUALIFY",
    "windows": "WINDOW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
}
_TABLE_PLAIN = {"this", "db", "catalog", "alias"}


@dataclass(frozen=True, slots=True)
class Layer:
    """What the SELECTs read so far amount to: a relation, over a table or over an operator's output.

    A match is not an operator yet: which columns it keeps is known last.
    """

    source: str
    relation: Relation
    context: Context | None = None
    matched: Matched | None = None
    operator: Description | None = None

    @property
    def has_operator(self) -> bool:
        """Whether rows have crossed each other already."""
        return self.matched is not None or self.operator is not None


@dataclass(frozen=True, slots=True)
class WithQuery:
    """A named sub-select, and the names that were known where it was written."""

    query: exp.Expr
    known: dict[str, WithQuery]


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads one statement over some tables; `patterns` were cut out of its text."""

    sql: str
    tables: Mapping[str, pa.Schema]
    patterns: Mapping[int, str]
    fold_labels: bool = True
    event_time: str | None = None

    def query(self, tree: exp.Expr) -> Query:
        """The whole statement, compiled."""
        select = self._as_select(tree)
        known = self._with(select, {})
        layer = self._select(select, known)
        if layer.operator is not None and layer.context is not None:
            return Query(self.sql, layer.source, layer.context.intake(), layer.operator, finish(layer.relation))
        if layer.matched is not None and layer.context is not None:
            operator, output = layer.matched.keeping(layer.context, layer.relation)
            return Query(self.sql, layer.source, layer.context.intake(), operator, finish(output))
        return self._row_wise(layer)

    def _row_wise(self, layer: Layer) -> Query:
        """A SELECT in which rows don't meet: the intake computes everything, the finish names it."""
        relation = layer.relation
        table = table_relation(self.sql, relation.base, frozenset())
        context = self._context(layer.source, replace(table, where=relation.where))
        definitions = tuple(
            replace(each, expression=exp.column(context.add(each.expression), quoted=None))
            for each in relation.definitions
        )
        output = Relation(self.sql, relation.base, definitions)
        return Query(self.sql, layer.source, context.intake(), Selection(), finish(output))

    def _windows(self, select: exp.Select, known: dict[str, WithQuery]) -> Layer:
        from trimtab.language.windows import window_relation

        layer = self._from(select, known)
        if layer.has_operator:
            raise self._refused("a window over the output of another operator", select.expressions[0])
        relation = layer.relation
        if where := select.args.get("where"):
            relation = relation.filtered(where.this)
        for key in ("joins", "laterals", "sample", "pivots"):
            if found := select.args.get(key):
                raise self._refused(_CLAUSES[key], found[0] if isinstance(found, list) else found)
        context = self._context(layer.source, relation)
        operator, output = window_relation(select, context)
        return Layer(layer.source, output, context, operator=operator)

    def _context(self, source: str, relation: Relation) -> Context:
        return Context(self.sql, source, relation, self.event_time, self.fold_labels)

    def _as_select(self, tree: exp.Expr) -> exp.Select:
        while isinstance(tree, exp.Subquery) and not set(tree.args) - {"this", "alias"}:
            tree = tree.this
        if isinstance(tree, exp.Select):
            return tree
        if isinstance(tree, exp.Query):
            raise self._refused(type(tree).__name__.upper(), tree)
        raise mistake(self.sql, "query.syntax", "a query starts with SELECT or WITH", tree)

    def _with(self, select: exp.Select, known: dict[str, WithQuery]) -> dict[str, WithQuery]:
        clause = select.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise self._refused("WITH RECURSIVE", clause)
        for each in clause.expressions:
            if each.args["alias"].args.get("columns"):
                raise self._refused("a list of column names", each.args["alias"])
            known = {**known, each.alias.lower(): WithQuery(each.this, known)}
        return known

    def _select(self, select: exp.Select, known: dict[str, WithQuery]) -> Layer:
        if _is_windowed(select) and select.args.get("match") is None:
            return self._windows(select, known)
        self._check_clauses(select)
        layer = self._from(select, known)
        if (match := select.args.get("match")) is not None:
            layer = self._match(layer, match)
        relation = layer.relation
        if where := select.args.get("where"):
            relation = relation.filtered(where.this)
        return replace(layer, relation=relation.projected(select.expressions))

    def _check_clauses(self, select: exp.Select) -> None:
        for key, value in select.args.items():
            if value and key not in _PLAIN:
                at = value[0] if isinstance(value, list) else value
                what = _CLAUSES.get(key, key.strip("_").upper())
                raise self._refused(what, at if isinstance(at, exp.Expr) else select)

    def _match(self, layer: Layer, node: MatchRecognize) -> Layer:
        if layer.has_operator:
            raise self._refused("a second operator under MATCH_RECOGNIZE", node_start(node))
        context = self._context(layer.source, layer.relation)
        matched = compile_match(context, node, self.patterns)
        return Layer(layer.source, matched.output, context, matched)

    def _table_function(self, node: TableFunction, known: dict[str, WithQuery]) -> Layer:
        from trimtab.language.table_functions import compile_table_function, table_argument

        layer = self._item(table_argument(self.sql, node).this, known)
        if layer.has_operator:
            raise self._refused("a table function over the output of another operator", node_start(node))
        context = self._context(layer.source, layer.relation)
        operator, output = compile_table_function(context, node)
        return Layer(layer.source, output, context, operator=operator)

    def _from(self, select: exp.Select, known: dict[str, WithQuery]) -> Layer:
        clause = select.args.get("from_")
        if clause is None:
            message = "the query reads no table"
            raise mistake(self.sql, "query.table", message, select, f"add FROM {self._some_table()}")
        return self._item(clause.this, known)

    def _item(self, item: exp.Expr, known: dict[str, WithQuery]) -> Layer:
        for key, value in item.args.items():
            if value and key not in _TABLE_PLAIN and not isinstance(item, TableFunction):
                at = value[0] if isinstance(value, list) else item
                raise self._refused(_CLAUSES.get(key, key.upper()), at)
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._refused("a list of column names", alias)
        if isinstance(item, TableFunction):
            return self._table_function(item, known)
        if isinstance(item, exp.Subquery):
            inner = self._as_select(item.this)
            layer = self._select(inner, self._with(inner, known))
            names = {alias.name.lower()} if alias is not None and alias.name else set()
            return _renamed(layer, frozenset(names))
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self._table(item, known)
        message = "a query reads a table, or a sub-select over one"
        raise mistake(self.sql, "query.table", message, item)

    def _table(self, table: exp.Table, known: dict[str, WithQuery]) -> Layer:
        name = ".".join(part.name for part in table.parts)
        names = frozenset({(table.alias or table.name).lower()})
        if (found := known.get(name.lower())) is not None:
            inner = self._as_select(found.query)
            return _renamed(self._select(inner, self._with(inner, found.known)), names)
        same = [key for key in self.tables if key.lower() == name.lower()]
        exact = [key for key in same if key == name] or same
        if len(exact) != 1:
            hint = did_you_mean(name, [*self.tables, *known], otherwise=f"there is {self._some_table()}")
            raise mistake(self.sql, "query.table", f"no table named {name}", table, hint)
        relation = table_relation(self.sql, self.tables[exact[0]], names)
        return Layer(exact[0], relation)

    def _some_table(self) -> str:
        return listing(list(self.tables)) if self.tables else "no table at all"

    def _refused(self, what: str, at: exp.Expr | tuple[int, int]) -> QueryError:
        message = f"{what} is not row-wise: only projections and filters can stand around a pattern"
        return mistake(self.sql, "query.row-wise", message, at, "do it on the result")


def _renamed(layer: Layer, names: frozenset[str]) -> Layer:
    return replace(layer, relation=replace(layer.relation, aliases=names))


def _is_windowed(select: exp.Select) -> bool:
    """Whether the SELECT itself, not one inside it, has windows or groups."""
    if select.args.get("group") is not None:
        return True
    return any(each.find(exp.Window) is not None for each in select.expressions)


def finish(output: Relation) -> Finish:
    """The last step: the output's columns under their names."""
    names = unique([each.name for each in output.definitions])
    texts = [spark_text(each.expression) for each in output.definitions]
    return Finish(
        columns=tuple(zip(names, texts, strict=True)),
        where=None if output.where is None else spark_text(output.where),
        types=tuple(each.type for each in output.definitions),
    )


def unique(names: Sequence[str]) -> list[str]:
    """The names, a repeated one with a number: columns of a result are looked up by name.

    >>> unique(["id", "id", "price"])
    ['id', 'id_1', 'price']
    """
    taken, found = set(names), list[str]()
    for name in names:
        if name in found:
            numbered = (f"{name}_{n}" for n in itertools.count(1))
            name = next(each for each in numbered if each not in taken)
            taken.add(name)
        found.append(name)
    return found
