"""The SELECT list of a SELECT with windows: what its columns are called, and what names in conditions on it mean."""

from __future__ import annotations

from sqlglot import exp

from trimtab.language.context import Context
from trimtab.language.mistakes import placed
from trimtab.language.relation import spark_text


def projected_name(node: exp.Expr) -> str:
    """What Spark calls a column of the SELECT list: without an alias, by its text."""
    return node.alias_or_name if isinstance(node, exp.Alias | exp.Column) else spark_text(node)


def without_aliases(tree: exp.Expr, select: exp.Select, context: Context) -> exp.Expr:
    """The condition with aliases of the SELECT list replaced, except where the input has a column of that name."""
    known = {name.lower() for name in context.schema.names}
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}

    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or node.table or node.name.lower() in known:
            return node
        meant = aliases.get(node.name.lower())
        return node if meant is None else placed(exp.Paren(this=meant.copy()), node)

    return tree.transform(change)
