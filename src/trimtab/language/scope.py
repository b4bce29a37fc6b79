"""The names that a MATCH_RECOGNIZE gives to rows: labels of the pattern, and subsets of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from trimtab.language.dialect import Subset
from trimtab.language.merge import Context
from trimtab.language.mistakes import did_you_mean, listing
from trimtab.language.patterns import Name, identity

Labels = frozenset[int] | None
"""A set of labels; None is every label, the "universal" variable."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Labels by number, and what each name stands for."""

    context: Context
    labels: tuple[Name, ...]
    numbers: dict[str, int]
    subsets: dict[str, frozenset[int]]

    @property
    def shown(self) -> tuple[str, ...]:
        """What CLASSIFIER() returns for each label."""
        folded = self.context.fold_labels
        return tuple(label.identity if folded else label.written for label in self.labels)

    def number(self, name: exp.Expr) -> int | None:
        """The number of a label, or None if the pattern has none of that name."""
        return self.numbers.get(_identity(name))

    def find(self, name: exp.Expr) -> frozenset[int] | None:
        """The labels that a name stands for, or None if it is neither label nor subset."""
        number = self.number(name)
        return self.subsets.get(_identity(name)) if number is None else frozenset({number})

    def variable(self, name: exp.Expr) -> frozenset[int]:
        """As `find`, but an unknown name is the error `query.variable`."""
        found = self.find(name)
        if found is not None:
            return found
        message = f"the pattern has no variable {name.name}"
        raise self.context.error("query.variable", message, name, self.hint(name.name))

    def hint(self, name: str) -> str:
        """The variable that was probably meant."""
        names = [*(label.written for label in self.labels), *self.subsets]
        return did_you_mean(name, names, otherwise=f"it has {listing(names)}" if names else "")

    def normal(self, labels: Labels) -> Labels:
        """The labels, with None for a set that holds every label: the two mean the same."""
        return None if labels is not None and len(labels) == len(self.labels) else labels


def _identity(name: exp.Expr) -> str:
    return identity(name.name, bool(name.args.get("quoted")))


def make_scope(context: Context, labels: Sequence[Name], subsets: Iterable[Subset]) -> Scope:
    """Check the SUBSET clause against the pattern's labels."""
    numbers = {label.identity: number for number, label in enumerate(labels)}
    scope = Scope(context, tuple(labels), numbers, {})
    for subset in subsets:
        name = subset.this
        if scope.find(name) is not None:
            message = f"{name.name} is already a variable of the pattern"
            raise context.error("query.subset-duplicate", message, name, "choose another name")
        members = set()
        for member in subset.expressions:
            number = scope.number(member)
            if number is None:
                message = f"{member.name} is not a label of the pattern"
                raise context.error("query.subset-label", message, member, scope.hint(member.name))
            members.add(number)
        scope.subsets[_identity(name)] = frozenset(members)
    return scope
