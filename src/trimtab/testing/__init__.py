"""For tests of your own queries, operators and sources: rows with times, answers as bags, the laws as functions.

A failure is an `AssertionError` that says where: any test runner shows it. docs/testing.md has examples.
"""

from trimtab.testing.laws import BrokenLawError, check_cuts, check_operator
from trimtab.testing.rows import assert_same_rows, bag, difference, rows_at
from trimtab.testing.sources import check_source

__all__ = [
    "BrokenLawError",
    "assert_same_rows",
    "bag",
    "check_cuts",
    "check_operator",
    "check_source",
    "difference",
    "rows_at",
]
