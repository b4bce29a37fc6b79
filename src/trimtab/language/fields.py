"""Fields of structs: `place.city` is written as `place['city']`, which means the same, and only that.

A name with dots may also be a table's or a variable's, followed by a column. So a first part is taken for a struct only
if it is a column of that type, and neither names the table nor a variable of the pattern.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True, slots=True)
class Fields:
    """Finds fields of the columns of a schema; `qualifiers` are names of tables and variables, in lower case."""

    schema: pa.Schema
    qualifiers: Collection[str]

    @property
    def are_possible(self) -> bool:
        """Whether there are structs at all."""
        return any(map(pa.types.is_struct, self.schema.types))

    def written(self, tree: exp.Expr) -> exp.Expr:
        """The tree with brackets for the fields in it; changed in place below its root."""
        for node in list(tree.walk()):
            if not isinstance(node, exp.Column | exp.Dot) or isinstance(node.parent, exp.Dot):
                continue
            parts = node.parts
            found = self._field(parts)
            if found is None:
                continue
            # Without an alias, a column of a SELECT list has the field's name.
            is_listed = isinstance(node.parent, exp.Select) and node.arg_key == "expressions"
            new = exp.alias_(found, parts[-1].name, quoted=True) if is_listed else found
            if node is tree:
                return new
            node.replace(new)
        return tree

    def listed(self, columns: Iterable[exp.Expr]) -> list[exp.Expr]:
        """The columns of a SELECT list."""
        return [self.written(each) for each in columns]

    def _field(self, parts: list[exp.Expr]) -> exp.Expr | None:
        """The field that these parts of a name mean, if they mean one."""
        if not all(isinstance(each, exp.Identifier) for each in parts):
            return None
        names = [each.name.lower() for each in parts]
        at = 1 if names[0] in self.qualifiers else 0
        if len(names) < at + 2 or not self._is_struct(names[at]):
            return None
        qualifier = parts[0].copy() if at else None
        found: exp.Expr = exp.Column(this=parts[at].copy(), table=qualifier)
        for each in parts[at + 1 :]:
            found = exp.Bracket(this=found, expressions=[exp.Literal.string(each.name)])
        return found

    def _is_struct(self, name: str) -> bool:
        return any(each.name.lower() == name and pa.types.is_struct(each.type) for each in self.schema)


def variables_of(patterns: Iterable[str]) -> set[str]:
    """All words of some patterns, in lower case: the variables are among them.

    >>> sorted(variables_of(["A (B{2,} | c)+?"]))
    ['a', 'b', 'c']
    """
    return {word.lower() for pattern in patterns for word in _WORD.findall(pattern)}
