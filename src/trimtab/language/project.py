"""Pass 6, `project`: the row-wise SELECTs around the operator, over its output.

Before: the operator and its own output. After: the columns of the result, each as an expression over the operator's
output; a pattern keeps only the input columns that those use, and the intake is complete.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from trimtab.engine.match.ir.expression import MatchNumber
from trimtab.engine.match.ir.query import MatchQuery, Rows
from trimtab.engine.operator import Description
from trimtab.language.intake_columns import IntakeColumns
from trimtab.language.lower import Lowered
from trimtab.language.merge import with_layers
from trimtab.language.relation import Relation, column, substitute
from trimtab.rowwise.local import IntakeStep


@dataclass(frozen=True, slots=True)
class Projected:
    """All parts of the query; the output is still syntax."""

    sql: str
    source: str
    intake: IntakeStep
    operator: Description
    output: Relation


def project(lowered: Lowered) -> Projected:
    """Merge the outer layers.

    Raises QueryError: `query.column`, `query.type`, `query.function`, `query.row-wise` or `query.too-large`.
    """
    chain = lowered.merged.chain
    output = with_layers(lowered.output, chain.outer)
    operator, columns = lowered.operator, lowered.columns
    if isinstance(operator, MatchQuery):
        columns = columns.copy()
        operator, output = _keeping(operator, output, columns)
    return Projected(chain.text.sql, chain.source, columns.step(), operator, output)


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
