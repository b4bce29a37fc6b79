"""Pass 2, `unnest`: from nested SELECTs to a chain of steps, innermost first; the query's source is known then.

Before: a parsed statement. After: one table, row-wise SELECTs over it, at most one operator (MATCH_RECOGNIZE, a SELECT
with windows, a table function) and row-wise SELECTs over that. WITH and sub-selects are gone. Columns haven't been
checked. What isn't row-wise around the operator would need a second pass over its output, and is refused with an
explanation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from trimtab.engine.keyed.description import KeyedOperator, registered, registered_names
from trimtab.errors import QueryError
from trimtab.language.dialect import MatchRecognize, TableArgument, TableFunction
from trimtab.language.fields import Fields, variables_of
from trimtab.language.mistakes import BEFORE, Span, did_you_mean, instead_of, listing, mistake, node_start, span_of
from trimtab.language.parse import Parsed, QueryText

_PLAIN = {"expressions", "from_", "where", "with_", "match", "kind", "hint"}
_NEVER_WINDOWED = ("joins", "laterals", "sample", "pivots")
CLAUSES = {
    **{key: f"{key.upper()} BY" for key in ("group", "order", "sort", "cluster", "distribute")},
    **{key: key.upper() for key in ("having", "distinct", "limit", "offset", "qualify")},
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "pivots": "PIVOT",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
}
"""What the parts of sqlglot's SELECT are called in SQL."""
_ON_RESULT = "do it on the result"
_BEFORE = f"do it before, {BEFORE}"
_FEEDING = {
    **dict.fromkeys(("order", "sort", "cluster", "distribute"), "leave it out: a pattern has an ORDER BY of its own"),
    **dict.fromkeys(("limit", "offset"), "leave it out, or filter with WHERE"),
}
"""What to do about a clause in a SELECT that a pattern reads; the others can be done before the query."""
_RENAME = "name them in the SELECT, as in SELECT x AS a"
_TABLE_PLAIN = {"this", "db", "catalog", "alias"}

OperatorNode = MatchRecognize | TableFunction | exp.Select
"""The syntax of an operator; a SELECT is one with windows or groups."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A row-wise step: the rows for which `where` holds, the columns of a SELECT list, the names to qualify them by.

    None: all rows, the columns and the names as they are.
    """

    where: exp.Expr | None = None
    columns: Sequence[exp.Expr] | None = None
    aliases: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """The steps from a table to the result. Without an operator all layers are inner ones."""

    text: QueryText
    patterns: Mapping[int, str]
    source: str
    inner: tuple[Layer, ...]
    operator: OperatorNode | None = None
    outer: tuple[Layer, ...] = ()

    def then(self, layer: Layer) -> Chain:
        """The chain with one more step."""
        if self.operator is None:
            return replace(self, inner=(*self.inner, layer))
        return replace(self, outer=(*self.outer, layer))


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A query of WITH, and the names that were known where it was written."""

    query: exp.Expr
    known: dict[str, NamedQuery]


def unnest(parsed: Parsed) -> Chain:
    """Lay the SELECTs of a statement out as steps.

    Raises QueryError: `query.table` where no table of that name can be read, `query.row-wise` for what isn't row-wise
    around an operator, `query.table-function` and `query.argument` for one that is unknown or reads no table.
    """
    return _with_fields(_Walk(parsed).query(parsed.tree, {}))


def _with_fields(chain: Chain) -> Chain:
    """The chain with the fields of structs written with brackets."""
    schema = chain.text.tables[chain.source]
    layers = (*chain.inner, *chain.outer)
    qualifiers = {name for layer in layers for name in layer.aliases or ()} | variables_of(chain.patterns.values())
    fields = Fields(schema, qualifiers)
    if not fields.are_possible:
        return chain

    def written(layer: Layer) -> Layer:
        where = None if layer.where is None else fields.written(layer.where)
        columns = None if layer.columns is None else fields.listed(layer.columns)
        return replace(layer, where=where, columns=columns)

    operator: OperatorNode | None = chain.operator
    if operator is not None:
        fields.written(operator)
    return replace(chain, inner=tuple(map(written, chain.inner)), outer=tuple(map(written, chain.outer)))


@dataclass(frozen=True, slots=True)
class _Walk:
    parsed: Parsed

    @property
    def sql(self) -> str:
        return self.parsed.text.sql

    def query(self, tree: exp.Expr, known: dict[str, NamedQuery]) -> Chain:
        select = self._as_select(tree)
        return self._select(select, self._with_names(select, known))

    def _as_select(self, tree: exp.Expr) -> exp.Select:
        while isinstance(tree, exp.Subquery) and not set(tree.args) - {"this", "alias"}:
            tree = tree.this
        if isinstance(tree, exp.Select):
            return tree
        if isinstance(tree, exp.Query):
            is_before = tree.find(MatchRecognize, exp.Group, exp.Window) is None
            hint = _BEFORE if is_before else "make a query of each part, and do it on their results"
            raise self._refused(type(tree).__name__.upper(), tree, hint)
        raise mistake(self.sql, "query.syntax", "a query starts with SELECT or WITH", tree)

    def _with_names(self, select: exp.Select, known: dict[str, NamedQuery]) -> dict[str, NamedQuery]:
        """The names that a SELECT can read: those known around it and those of its WITH."""
        clause = select.args.get("with_")
        if clause is None:
            return known
        if clause.args.get("recursive"):
            raise self._refused("WITH RECURSIVE", clause, "leave RECURSIVE out")
        for each in clause.expressions:
            if each.args["alias"].args.get("columns"):
                raise self._refused("a list of column names", each.args["alias"], _RENAME)
            known = {**known, each.alias.lower(): NamedQuery(each.this, known)}
        return known

    def _select(self, select: exp.Select, known: dict[str, NamedQuery]) -> Chain:
        match = select.args.get("match")
        if match is None and _is_windowed(select):
            return self._windows(select, known)
        chain = self._from(select, known)
        self._check_clauses(select, chain)
        if match is not None:
            hint = _BEFORE if isinstance(chain.operator, exp.Select) else _ON_RESULT
            self._check_first(chain, "a second operator under MATCH_RECOGNIZE", node_start(match), hint)
            chain = replace(chain, operator=match)
        return chain.then(Layer(_where(select), select.expressions))

    def _check_clauses(self, select: exp.Select, chain: Chain) -> None:
        for key, value in select.args.items():
            if value and key not in _PLAIN:
                first = value[0] if isinstance(value, list) else value
                at = first if isinstance(first, exp.Expr) else select
                hint = self._instead(key, at, select) if chain.operator is None else _ON_RESULT
                raise self._refused(CLAUSES.get(key, key.strip("_").upper()), at, hint)

    def _instead(self, key: str, at: exp.Expr, select: exp.Select) -> str:
        """What to do about a clause of a SELECT that reads no operator's output, but may be read by one or have one."""
        match, place = select.args.get("match"), span_of(at)
        if match is not None and place is not None and place[0] > match.meta["start"]:
            return _ON_RESULT
        if match is None and key in _FEEDING and (select is self.parsed.tree or not self.parsed.patterns):
            return _ON_RESULT
        return _FEEDING.get(key, _BEFORE)

    def _windows(self, select: exp.Select, known: dict[str, NamedQuery]) -> Chain:
        chain = self._from(select, known)
        self._check_first(chain, "a window over the output of another operator", select.expressions[0])
        for key in _NEVER_WINDOWED:
            if found := select.args.get(key):
                at = found[0] if isinstance(found, list) else found
                raise self._refused(CLAUSES[key], at, _BEFORE)
        filtered = chain if select.args.get("where") is None else chain.then(Layer(_where(select)))
        return replace(filtered, operator=select)

    def _check_first(self, chain: Chain, what: str, at: exp.Expr | Span, hint: str = _ON_RESULT) -> None:
        if chain.operator is not None:
            raise self._refused(what, at, hint)

    def _from(self, select: exp.Select, known: dict[str, NamedQuery]) -> Chain:
        clause = select.args.get("from_")
        if clause is None:
            raise mistake(self.sql, "query.table", "the query reads no table", select, f"add FROM {self._some_table()}")
        return self._item(clause.this, known)

    def _item(self, item: exp.Expr, known: dict[str, NamedQuery]) -> Chain:
        for key, value in item.args.items():
            if value and key not in _TABLE_PLAIN and not isinstance(item, TableFunction):
                at = value[0] if isinstance(value, list) else item
                raise self._refused(CLAUSES.get(key, key.upper()), at, _BEFORE)
        alias = item.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise self._refused("a list of column names", alias, _RENAME)
        if isinstance(item, TableFunction):
            chain = self._item(table_argument(self.sql, item).this, known)
            self._check_first(chain, "a table function over the output of another operator", node_start(item))
            return replace(chain, operator=item)
        if isinstance(item, exp.Subquery):
            names = {alias.name.lower()} if alias is not None and alias.name else set()
            return self.query(item.this, known).then(Layer(aliases=frozenset(names)))
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self._table(item, known)
        raise mistake(self.sql, "query.table", "a query reads a table, or a sub-select over one", item)

    def _table(self, table: exp.Table, known: dict[str, NamedQuery]) -> Chain:
        name = ".".join(part.name for part in table.parts)
        naming = Layer(aliases=frozenset({(table.alias or table.name).lower()}))
        if (found := known.get(name.lower())) is not None:
            return self.query(found.query, found.known).then(naming)
        tables = self.parsed.text.tables
        same = [key for key in tables if key.lower() == name.lower()]
        exact = [key for key in same if key == name] or same
        if len(exact) != 1:
            hint = did_you_mean(name, [*tables, *known], otherwise=f"there is {self._some_table()}")
            raise mistake(self.sql, "query.table", f"no table named {name}", table, hint)
        return Chain(self.parsed.text, self.parsed.patterns, exact[0], (naming,))

    def _some_table(self) -> str:
        return listing(list(self.parsed.text.tables)) if self.parsed.text.tables else "no table at all"

    def _refused(self, what: str, at: exp.Expr | Span, hint: str) -> QueryError:
        message = f"{what} is not row-wise: only projections and filters are allowed around a pattern"
        return mistake(self.sql, "query.row-wise", message, at, hint)


def _where(select: exp.Select) -> exp.Expr | None:
    clause = select.args.get("where")
    return None if clause is None else clause.this


def _is_windowed(select: exp.Select) -> bool:
    """Whether the SELECT itself, not one inside it, has windows or groups."""
    if select.args.get("group") is not None:
        return True
    return any(each.find(exp.Window) is not None for each in select.expressions)


def table_argument(sql: str, node: TableFunction) -> TableArgument:
    """The table that a call reads.

    Raises QueryError: `query.table-function` where there is no such operator, `query.argument` where it reads no table
    or several.
    """
    called_operator(sql, node)
    found = [each for each in node.expressions if isinstance(each, TableArgument)]
    if len(found) > 1:
        raise mistake(sql, "query.argument", f"{node.name} reads one table", found[1])
    if not found:
        bare = next((each for each in node.expressions if isinstance(each, exp.Column)), None)
        hint = f"write TABLE({bare.name if bare else 'name'}) first, then PARTITION BY and ORDER BY"
        raise mistake(sql, "query.argument", f"{node.name} needs a table to read", bare or node_start(node), hint)
    return found[0]


def called_operator(sql: str, node: TableFunction) -> type[KeyedOperator]:
    """The description that the call names."""
    description = registered(node.name)
    if description is None:
        otherwise = "register it first, with @trimtab.operator"
        hint = instead_of(node.name) or did_you_mean(node.name, registered_names(), otherwise=otherwise)
        raise mistake(sql, "query.table-function", f"there is no table function {node.name}", node_start(node), hint)
    return description
