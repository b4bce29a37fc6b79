"""Random DEFINE conditions and MEASURES: navigation, aggregates, CLASSIFIER, logic and arithmetic.

A navigation or an aggregate looks at one variable only, as the standard asks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.support.choices import Choices, between, chance, one_of

_COMPARISONS = (">=", "<=", "<", ">", "=", "<>")
_NUMBERS = ("x", "x", "x", "y", "d")


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables that an expression may name; `own` is the label whose condition it is, None for a measure."""

    labels: tuple[str, ...]
    subsets: tuple[str, ...]
    own: str | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """Prefixes of columns: the label itself (or none: all rows) more often than the others."""
        others = tuple(f"{name}." for name in (*self.labels, *self.subsets))
        return ("", "", *others) if self.own is None else ("", f"{self.own}.", "", *others)

    def within(self, label: str) -> Scope:
        """The scope of a label's condition."""
        return replace(self, own=label)


def a_condition(choices: Choices, scope: Scope) -> str:
    """A boolean expression that often holds."""
    text = _condition(choices, scope, 2)
    # Expressions over other rows are often null, and would rarely match anything.
    match one_of(choices, "as it is", "as it is", "if known", "or else"):
        case "as it is":
            return text
        case "if known":
            return f"coalesce({text}, TRUE)"
        case _:
            return f"({text} OR {_row_condition(choices, scope)})"


def a_measure(choices: Choices, scope: Scope) -> str:
    """An expression of any type."""
    kinds = ["place"] * 3 + ["aggregate"] * 3
    kinds += ["classifier", "match number", "number", "list", "condition"]
    match one_of(choices, *kinds):
        case "place":
            column = one_of(choices, "x", "y", "s", "d", "b", "ts", "k")
            return a_place(choices, scope, column)
        case "aggregate":
            return _aggregate(choices, scope)
        case "classifier":
            return _classifier(choices, scope)
        case "match number":
            return "MATCH_NUMBER()"
        case "number":
            return _number(choices, scope, 2)
        case "list":
            return _list(choices, scope)
        case _:
            return _condition(choices, scope, 1)


# -- values of rows ----------------------------------------------------------------------------


def a_place(choices: Choices, scope: Scope, column: str) -> str:
    """A column, or a small expression over it, read at some row."""
    variable = one_of(choices, *scope.variables)
    value = _local(choices, variable, column)
    return _navigated(choices, scope, value)


def _navigated(choices: Choices, scope: Scope, value: str) -> str:
    match one_of(choices, "here", "here", "logical", "logical", "physical", "both"):
        case "here":
            return value
        case "logical":
            return _logical(choices, scope, value)
        case "physical":
            return _physical(choices, value)
        case _:
            return _physical(choices, _logical(choices, scope, value))


def _logical(choices: Choices, scope: Scope, value: str) -> str:
    offset = one_of(choices, "", "", ", 1", ", 2", ", 0")
    return f"{_semantics(choices, scope)}{one_of(choices, 'LAST', 'FIRST')}({value}{offset})"


def _physical(choices: Choices, value: str) -> str:
    return f"{one_of(choices, 'PREV', 'NEXT')}({value}{one_of(choices, '', '', ', 1', ', 2', ', 0')})"


def _semantics(choices: Choices, scope: Scope) -> str:
    if scope.own is not None:  # a condition always looks at the match so far
        return "RUNNING " if chance(choices, 5) else ""
    return one_of(choices, "", "", "FINAL ", "RUNNING ")


def _local(choices: Choices, variable: str, column: str) -> str:
    """A row-local expression over one variable, of the kind of the column."""
    name = variable + column
    if column in _NUMBERS and chance(choices, 20):
        other = variable + one_of(choices, *_NUMBERS)
        return one_of(
            choices,
            f"{name} + 1",
            f"{name} * 2",
            f"abs({name} - 2)",
            f"coalesce({name}, 1)",
            f"{name} + {other}",
            f"{name} / 2",
            f"CASE WHEN {other} > 1 THEN {name} END",
        )
    if column == "s" and chance(choices, 10):
        return one_of(choices, f"upper({name})", f"concat({name}, 'z')", f"coalesce({name}, 'b')")
    return name


def _classifier(choices: Choices, scope: Scope) -> str:
    variable = one_of(choices, "", "", "", *scope.subsets, *scope.labels[:1])
    return _navigated(choices, scope, f"CLASSIFIER({variable})")


# -- aggregates --------------------------------------------------------------------------------


def _aggregate(choices: Choices, scope: Scope) -> str:
    """An aggregate of any type but a list."""
    kind = one_of(choices, _number_aggregate, _number_aggregate, _other_aggregate)
    return _semantics(choices, scope) + kind(choices, scope)


def _number_aggregate(choices: Choices, scope: Scope) -> str:
    variable = one_of(choices, *scope.variables)
    column = one_of(choices, *_NUMBERS)
    value = _local(choices, variable, column)
    of_any = variable + one_of(choices, "s", "x", "y", "b")
    return one_of(
        choices,
        f"count({variable}*)",
        f"sum({value})",
        f"avg({value})",
        f"min({value})",
        f"max({value})",
        f"count({of_any})",
        f"stddev({value})",
        f"stddev_pop({value})",
        f"var_samp({value})",
        f"var_pop({value})",
        f"any_value({value})",
        f"max_by({value}, {variable}{one_of(choices, 's', 'y', 'ts')})",
        f"min_by({value}, {variable}d)",
        f"count(DISTINCT {of_any})",
        f"approx_count_distinct({of_any})",
    )


def _other_aggregate(choices: Choices, scope: Scope) -> str:
    variable = one_of(choices, *scope.variables)
    return one_of(
        choices,
        f"min({variable}s)",
        f"max({variable}s)",
        f"max({variable}ts)",
        f"bool_or({variable}b)",
        f"bool_and({variable}x > 0)",
        f"any_value({variable}s)",
        f"max_by({variable}s, {variable}x)",
        f"min_by({variable}s, {variable}y)",
    )


def _list(choices: Choices, scope: Scope) -> str:
    variable = one_of(choices, *scope.variables)
    value = one_of(
        choices,
        _local(choices, variable, one_of(choices, "x", "s", "y")),
        f"{variable}ts",
        f"{variable}d",
        f"CLASSIFIER({variable.rstrip('.')})",
    )
    return f"{_semantics(choices, scope)}{one_of(choices, 'array_agg', 'collect_list')}({value})"


# -- expressions over them ----------------------------------------------------------------------


def _number(choices: Choices, scope: Scope, depth: int) -> str:
    kinds = ["place", "place", "place", "constant", "aggregate"]
    if depth > 0:
        kinds += ["sum", "sum", "coalesce", "case", "function"]
    inner = depth - 1
    match one_of(choices, *kinds):
        case "place":
            return a_place(choices, scope, one_of(choices, *_NUMBERS))
        case "constant":
            return one_of(choices, "1", "2", "0", "3", "0.5", "1.50")
        case "aggregate":
            return _semantics(choices, scope) + _number_aggregate(choices, scope)
        case "sum":
            operator = one_of(choices, "+", "-", "*")
            return f"({_number(choices, scope, inner)} {operator} {_number(choices, scope, inner)})"
        case "coalesce":
            return f"coalesce({_number(choices, scope, inner)}, {_number(choices, scope, inner)})"
        case "case":
            test = _condition(choices, scope, 0)
            yes, no = _number(choices, scope, inner), _number(choices, scope, inner)
            return f"CASE WHEN {test} THEN {yes} ELSE {no} END"
        case _:
            first, second = _number(choices, scope, inner), _number(choices, scope, inner)
            return one_of(
                choices,
                f"abs({first})",
                f"greatest({first}, {second})",
                f"least({first}, {second})",
                f"{first} / 2",
                f"({first} / nullif({second}, 0))",
                f"sqrt(abs({first}))",
                f"floor({first})",
                f"CAST({first} AS DOUBLE)",
            )


def _condition(choices: Choices, scope: Scope, depth: int) -> str:
    kinds = [_row_condition] * 5 + [_number_condition] * 4 + [_text_condition] * 2
    kinds += [_time_condition, _classifier_condition, _null_condition]
    kinds += [_aggregate_condition] * 2
    if depth > 0 and chance(choices, 30):
        left, right = _condition(choices, scope, depth - 1), _condition(choices, scope, depth - 1)
        return one_of(
            choices, f"({left} OR {right})", f"({left} OR {right})", f"({left} AND {right})",
            f"NOT ({left})",
        )  # fmt: skip
    return one_of(choices, *kinds)(choices, scope)


def _row_condition(choices: Choices, scope: Scope) -> str:
    """A condition on one row, of the kind that often holds."""
    v = "" if scope.own is None else one_of(choices, "", f"{scope.own}.")
    return one_of(
        choices,
        f"{v}x >= 1",
        f"{v}x < 4",
        f"{v}x > 2",
        f"{v}x IS NOT NULL",
        f"{v}x IS NULL",
        f"{v}y <= 1.5",
        f"{v}s = 'b'",
        f"{v}s <> 'c'",
        f"{v}s IN ('a', 'b')",
        f"{v}x BETWEEN 1 AND 3",
        f"{v}d > 0.50",
        f"{v}b",
        f"{v}x % 2 = 0",
        f"({v}x < 2 OR {v}b)",
        "TRUE",
    )


def _number_condition(choices: Choices, scope: Scope) -> str:
    left = a_place(choices, scope, one_of(choices, *_NUMBERS))
    right = _number(choices, scope, 1)
    return f"{left} {one_of(choices, *_COMPARISONS)} {right}"


def _text_condition(choices: Choices, scope: Scope) -> str:
    left, right = a_place(choices, scope, "s"), a_place(choices, scope, "s")
    if chance(choices, 5):  # a function that the engine doesn't have
        return f"concat({left}, {right}) <> 'ab'"
    if chance(choices, 20):
        return f"{left} {one_of(choices, '=', '<>')} 'a'"
    return f"{left} {one_of(choices, *_COMPARISONS, '<=>')} {right}"


def _time_condition(choices: Choices, scope: Scope) -> str:
    left, right = a_place(choices, scope, "ts"), a_place(choices, scope, "ts")
    seconds = f"INTERVAL '{between(choices, 1, 4)}' SECOND"
    return one_of(choices, f"{left} >= {right}", f"{left} <= {right} + {seconds}", f"{left} - {right} < {seconds}")


def _classifier_condition(choices: Choices, scope: Scope) -> str:
    if chance(choices, 25):
        return f"MATCH_NUMBER() {one_of(choices, '<=', '<>', '>')} {one_of(choices, '2', '1')}"
    label = one_of(choices, *scope.labels)
    return f"{_classifier(choices, scope)} {one_of(choices, '=', '<>', '<=')} '{label}'"


def _null_condition(choices: Choices, scope: Scope) -> str:
    value = a_place(choices, scope, one_of(choices, "x", "s", "b", "y"))
    return f"{value} IS {one_of(choices, 'NOT NULL', 'NULL')}"


def _aggregate_condition(choices: Choices, scope: Scope) -> str:
    semantics = _semantics(choices, scope)
    variable = one_of(choices, *scope.variables)
    if chance(choices, 8):
        return f"size({_list(choices, scope)}) <= 3"
    if chance(choices, 25):
        return one_of(
            choices,
            f"{semantics}bool_or({variable}x >= 1)",
            f"{semantics}bool_and({variable}b)",
            f"{semantics}max({variable}s) <> 'c'",
            f"{semantics}any_value({variable}s) = {a_place(choices, scope, 's')}",
            f"{semantics}max_by({variable}s, {variable}x) >= 'b'",
        )
    aggregate = semantics + _number_aggregate(choices, scope)
    bound = one_of(choices, "2", "3", "1", "5")
    return f"{aggregate} {one_of(choices, '<=', '<', '>=', '<>')} {bound}"
