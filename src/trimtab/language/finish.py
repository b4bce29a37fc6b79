"""Pass 6, `finish`: from the operator and the row-wise SELECTs around it to a `Query`, plain data that pickles.

Before: the operator and its own output. After: the columns of the result, each as a text of Spark SQL over the
operator's output, under names that are all different; a pattern keeps only the input columns that those use, and the
intake is complete. No syntax tree is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from trimtab.engine.match.ir.expression import MatchNumber
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.language.compiled import Query
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.lower import Lowered
from trimtab.language.merge import with_layers
from trimtab.language.relation import Relation, column, spark_text, substitute
from trimtab.rowwise.local import Finish


def finish(lowered: Lowered) -> Query:
    """Merge the outer layers, and write the output's columns as Spark SQL. Raises what `merge` raises."""
    chain = lowered.context.chain
    output = with_layers(lowered.output, chain.outer)
    operator, columns = lowered.operator, lowered.columns
    if isinstance(operator, MatchQuery):
        columns = replace(columns, added=dict(columns.added))
        operator, output = _keeping(operator, output, columns)
    names = unique([each.name for each in output.definitions])
    texts = [spark_text(each.expression) for each in output.definitions]
    last = Finish(
        columns=tuple(zip(names, texts, strict=True)),
        where=None if output.where is None else spark_text(output.where),
        types=tuple(each.type for each in output.definitions),
    )
    return Query(chain.text.sql, chain.source, columns.step(), operator, last)


def _keeping(operator: MatchQuery, output: Relation, columns: IntakeColumns) -> tuple[MatchQuery, Relation]:
    """The operator, which now keeps the input columns that the output uses, and the output over those."""
    roots = [*(each.expression for each in output.definitions), *([] if output.where is None else [output.where])]
    used = {name.name for root in roots for name in root.find_all(exp.Column)}
    names = {
        f"__k{i}": columns.add(column(each.name))
        for i, each in enumerate(columns.relation.definitions)
        if f"__k{i}" in used or (operator.rows is Rows.ONE and each.name in operator.partition)
    }

    def renamed(node: exp.Expr) -> exp.Expr:
        return substitute(node, lambda c: column(names[c.name]) if c.name in names else None)

    definitions = tuple(replace(each, expression=renamed(each.expression)) for each in output.definitions)
    where = None if output.where is None else renamed(output.where)
    keep = tuple(dict.fromkeys(names.values()))
    # A table without columns has no rows either: a result of constants alone still needs the number of rows.
    slots = operator.slots or (() if keep else (MatchNumber(),))
    return replace(operator, keep=keep, slots=slots), replace(output, definitions=definitions, where=where)


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number added to repeated ones: columns of a result are looked up by name.

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
