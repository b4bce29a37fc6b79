"""Pass 7, `finish`: from the parts of a query to a `Query`, plain data that pickles.

Before: operator, intake, and the output as syntax. After: the output's columns are texts of Spark SQL under names that
are all different. No syntax tree is left.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from trimtab.language.compiled import Query
from trimtab.language.project import Projected
from trimtab.language.relation import spark_text
from trimtab.rowwise.local import Finish


def finish(projected: Projected) -> Query:
    """Write the output's columns as Spark SQL, and put the parts together."""
    output = projected.output
    names = unique([each.name for each in output.definitions])
    texts = [spark_text(each.expression) for each in output.definitions]
    last = Finish(
        columns=tuple(zip(names, texts, strict=True)),
        where=None if output.where is None else spark_text(output.where),
        types=tuple(each.type for each in output.definitions),
    )
    return Query(projected.sql, projected.source, projected.intake, projected.operator, last)


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
