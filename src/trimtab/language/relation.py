"""The relation that a query reads: a table, with the row-wise SELECTs around it merged.

`SELECT a, b + 1 AS c FROM t WHERE x > 0` is the table t, a filter, and two definitions. A SELECT around that is again a
list of definitions over t: nothing is left of the nesting when the query runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import pyarrow as pa
from sqlglot import exp
from sqlglot.dialects.spark import Spark

from trimtab.language import oracle
from trimtab.language.mistakes import did_you_mean, listing, mistake
from trimtab.rowwise import duck

MAX_NODES = 5_000  # that merging may add to an expression
_KEYWORDS = frozenset(Spark.Tokenizer.KEYWORDS)


@dataclass(frozen=True, slots=True)
class Definition:
    """A column of a relation: its name, its expression over the base's columns, and its type."""

    name: str
    expression: exp.Expr
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Relation:
    """Columns defined over a base, for the rows where `where` holds.

    `aliases` are the names, in lower case, by which its columns may be qualified.
    """

    sql: str
    base: pa.Schema
    definitions: tuple[Definition, ...]
    where: exp.Expr | None = None
    aliases: frozenset[str] = frozenset()

    def resolve(self, node: exp.Column) -> Definition:
        """The column that a reference means; case matters only if two names differ in nothing else.

        Raises QueryError `query.column` where there is none, or several, or the qualifier is unknown.
        """
        self._check_qualifier(node.table, node.args.get("table"))
        return self.find(node.this)

    def _check_qualifier(self, name: str, at: exp.Expr | None) -> None:
        if name and name.lower() not in self.aliases:
            hint = did_you_mean(name, self.aliases)
            raise mistake(self.sql, "query.column", f"nothing here is called {name}", at, hint)

    def find(self, name: exp.Expr) -> Definition:
        """As `resolve`, for a name without a qualifier."""
        same = [each for each in self.definitions if each.name.lower() == name.name.lower()]
        found = [each for each in same if each.name == name.name] or same
        if len(found) == 1:
            return found[0]
        if found:
            message = f"{name.name} could be any of {len(found)} columns"
            raise mistake(self.sql, "query.column", message, name, "give them different names")
        names = [each.name for each in self.definitions]
        hint = did_you_mean(name.name, names, otherwise=f"the columns are {listing(names)}")
        raise mistake(self.sql, "query.column", f"no column named {name.name}", name, hint)

    def rewrite(self, expression: exp.Expr) -> exp.Expr:
        """A copy of the expression over the base's columns.

        Raises QueryError `query.too-large` where merging sub-selects makes it too large.
        """
        rewritten = substitute(expression, lambda node: self.resolve(node).expression)
        if _size(rewritten) > MAX_NODES + _size(expression):
            message = "the expression grows too large when its sub-selects are merged"
            raise mistake(self.sql, "query.too-large", message, expression)
        return rewritten

    def check_names(self, expression: exp.Expr) -> None:
        """Raise what `rewrite` would raise for a column that doesn't exist."""
        for node in reversed(list(expression.walk(bfs=False))):
            if isinstance(node, exp.Column):
                self.resolve(node)

    def type_of(self, expression: exp.Expr) -> pa.DataType:
        """The Arrow type of a row-local expression over the relation's columns.

        Raises QueryError `query.function` for an unknown function, `query.type` for operands
        that don't fit, `query.row-wise` for what isn't row-local.
        """
        return oracle.type_of(self.sql, self.rewrite(expression), self.base)

    def filtered(self, condition: exp.Expr) -> Relation:
        """The rows for which a condition over the relation's columns holds too."""
        new = self.rewrite(condition)
        type_ = oracle.type_of(self.sql, new, self.base)
        if type_ not in (pa.bool_(), pa.null()):
            raise mistake(self.sql, "query.type", f"WHERE needs a condition, this is {type_}", condition)
        both = new if self.where is None else exp.and_(self.where, new)
        return replace(self, where=both)

    def projected(self, projections: Sequence[exp.Expr]) -> Relation:
        """The columns of a SELECT list."""
        return replace(self, definitions=tuple(each for node in projections for each in self._project(node)))

    def _project(self, node: exp.Expr) -> list[Definition]:
        if node.is_star:
            return self._star(node)
        inner = node.unalias()
        if isinstance(inner, exp.Column):
            definition = self.resolve(inner)
            return [replace(definition, name=node.alias or definition.name)]
        rewritten = self.rewrite(inner)
        name = node.alias or projected_name(inner)
        return [Definition(name, rewritten, oracle.type_of(self.sql, rewritten, self.base))]

    def _star(self, node: exp.Expr) -> list[Definition]:
        star = node.this if isinstance(node, exp.Column) else node
        if isinstance(node, exp.Column):
            self._check_qualifier(node.table, node)
        if not isinstance(star, exp.Star) or star.args.get("replace") or star.args.get("rename"):
            raise mistake(self.sql, "query.row-wise", "only * and * EXCEPT (...) are understood", node)
        excepted = star.args.get("except_") or ()
        left_out = {self.find(each.this if isinstance(each, exp.Column) else each).name for each in excepted}
        return [each for each in self.definitions if each.name not in left_out]


def _size(expression: exp.Expr) -> int:
    return sum(1 for _ in expression.walk())


def table_relation(sql: str, schema: pa.Schema) -> Relation:
    """A table as it is."""
    return Relation(sql, schema, tuple(Definition(f.name, column(f.name), f.type) for f in schema))


def column(name: str) -> exp.Column:
    """A reference to a column, quoted where its name needs it."""
    plain = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name.upper() not in _KEYWORDS
    return exp.column(exp.to_identifier(name, quoted=not plain))


def projected_name(node: exp.Expr) -> str:
    """What Spark calls a column of a SELECT list: without an alias, by its text."""
    return node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else spark_text(node)


def spark_text(expression: exp.Expr) -> str:
    """The Spark SQL of an expression."""
    name = expression.this
    # Most are bare columns, the same ones again and again: writing them was a seventh of the time of compiling.
    if isinstance(expression, exp.Column) and isinstance(name, exp.Identifier) and not expression.table:
        return _column_text(name.this, bool(name.args.get("quoted")))
    return expression.sql("spark", comments=False)


@lru_cache(maxsize=4096)
def _column_text(name: str, quoted: bool) -> str:
    return exp.column(exp.to_identifier(name, quoted=quoted)).sql("spark")


def substitute(expression: exp.Expr, replacement: Callable[[exp.Column], exp.Expr | None]) -> exp.Expr:
    """A copy with columns replaced, in parentheses where that could matter; None leaves a column as it is."""

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column):
            return node
        new = replacement(node)
        if new is None:
            return node
        return enclosed(new) if node.parent else new.copy()

    return duck.bottom_up(expression, change)


def enclosed(node: exp.Expr) -> exp.Expr:
    """A copy that can be put anywhere into another expression."""
    atomic = isinstance(node, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Null | exp.Boolean)
    loose = isinstance(node, exp.Connector | exp.Case | exp.If)
    return node.copy() if atomic and not loose else exp.Paren(this=node.copy())
