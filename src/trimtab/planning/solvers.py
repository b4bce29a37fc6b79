"""Solvers: HiGHS and SciPy's sparse tables, which some planners need, and only when they are called."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

from trimtab.errors import BalanceError


def missing(packages: Sequence[str]) -> list[str]:
    """Those that aren't installed; nothing is imported."""
    return [package for package in packages if find_spec(package) is None]


def need_solvers(*packages: str) -> None:
    """Raise BalanceError `plan.solver` unless all of them are installed.

    >>> need_solvers("json", "no_such_solver")
    Traceback (most recent call last):
    trimtab.errors.BalanceError: error[plan.solver]: this needs no_such_solver, which isn't installed
      hint: pip install no_such_solver
    """
    if found := missing(packages):
        message = f"this needs {' and '.join(found)}, which {'is' if len(found) == 1 else 'are'}n't installed"
        raise BalanceError("plan.solver", message, f"pip install {' '.join(found)}")
