"""What the outcome of one comparison implies for others: a tree of conditions needs no branch for what is known."""

from __future__ import annotations

_OPPOSITES = {"<": ">=", ">": "<=", "<=": ">", ">=": "<", "==": "!=", "!=": "=="}
_EXCLUDED = {"<": (">", "=="), ">": ("<", "=="), "==": ("<", ">")}


def implied(code: str, outcome: bool) -> dict[str, bool]:
    """The outcomes of a comparison and of other comparisons of the same two values, given that of the first.

    NaN is no concern: where it occurs comparisons are calls, not signs.

    >>> implied("(a < b)", True)["(a > b)"]
    False
    """
    found = {code: outcome}
    for sign, opposite in _OPPOSITES.items():
        left, middle, right = code.partition(f" {sign} ")
        if not middle or not (left.startswith("(") and right.endswith(")")):
            continue
        if not (_is_simple(left[1:]) and _is_simple(right[:-1])):
            continue
        found[f"{left} {opposite} {right}"] = not outcome
        if outcome:
            for other in _EXCLUDED.get(sign, ()):
                found[f"{left} {other} {right}"] = False
                found[f"{left} {_OPPOSITES[other]} {right}"] = True
    return found


def _is_simple(code: str) -> bool:
    """Whether code is one value: no connectives, and no bracket left open."""
    words = code.split()
    if {"and", "or", "not", "if", "else", "<", ">", "<=", ">=", "==", "!="} & set(words):
        return False
    return code.count("(") == code.count(")") and code.count("[") == code.count("]")
