"""Linear program: what HiGHS is given, and what it answers. It runs on one thread and prints nothing.

HiGHS and SciPy's sparse tables are needed by some planners, and only when they are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from trimtab.errors import BalanceError
from trimtab.planning.problem import ROUNDING, BoolArray, Float64Array

if TYPE_CHECKING:
    from scipy.sparse import csr_array

TOLERANCE = 1e-7
"""How far HiGHS may be off: each row, and each whole number."""


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """Minimise the costs of columns, with rows of the matrix and columns between their limits, some of them whole.

    matrix         (rows, columns), sparse
    costs          (columns,)
    most           (columns,)  their upper limits; the lower ones are 0
    whole          (columns,)  those that are whole numbers
    lowest, highest  (rows,)   the limits of the rows
    """

    matrix: csr_array
    costs: Float64Array
    most: Float64Array
    whole: BoolArray
    lowest: Float64Array
    highest: Float64Array


@dataclass(frozen=True, eq=False)
class Answer:
    """What HiGHS found.

    values      (columns,) or empty if it found nothing
    prices      (rows,) by how much the costs would rise with each limit; empty with whole numbers
    bound       the costs can't be below this
    impossible  it is proved that there is nothing to find
    """

    values: Float64Array
    prices: Float64Array
    bound: float
    impossible: bool


def solve(
    program: LinearProgram,
    *,
    time_limit_s: float = np.inf,
    max_nodes: int | None = None,
    start: Float64Array | None = None,
) -> Answer:
    """Solve a program, from the values in `start` if they are given, until it is solved or a limit is reached.

    >>> from scipy.sparse import csr_array
    >>> program = LinearProgram(csr_array([[1.0, 1.0]]), np.array([2.0, 1.0]), np.array([9.0, 3.0]), np.zeros(2, bool),
    ...     np.array([4.0]), np.array([np.inf]))
    >>> solve(program).values.tolist(), solve(program).prices.tolist()
    ([1.0, 3.0], [2.0])
    """
    import highspy

    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # it has no types
    solver.silent()
    options: dict[str, Any] = {
        "threads": 1,
        "time_limit": max(0.0, time_limit_s),
        "random_seed": 0,
        "mip_rel_gap": ROUNDING,
        "mip_abs_gap": ROUNDING,
        "mip_feasibility_tolerance": TOLERANCE,
        "primal_feasibility_tolerance": TOLERANCE,
    }
    if max_nodes is not None:
        options["mip_max_nodes"] = max_nodes
    for name, value in options.items():
        solver.setOptionValue(name, value)
    mixed = bool(program.whole.any())
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = program.matrix.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = program.costs, np.zeros(len(program.costs)), program.most
    model.row_lower_, model.row_upper_ = program.lowest, program.highest
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_, model.a_matrix_.index_ = program.matrix.indptr, program.matrix.indices
    model.a_matrix_.value_ = program.matrix.data
    if mixed:
        kinds = (highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger)
        model.integrality_ = [kinds[int(whole)] for whole in program.whole]
    solver.passModel(model)
    if start is not None:
        solution = highspy.HighsSolution()
        solution.col_value = start.tolist()
        solver.setSolution(solution)
    solver.run()
    information, solution = solver.getInfo(), solver.getSolution()
    found = information.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    bound = float(information.mip_dual_bound if mixed else information.objective_function_value)
    return Answer(
        np.asarray(solution.col_value, dtype=np.float64) if found else np.zeros(0),
        np.zeros(0) if mixed else np.asarray(solution.row_dual, dtype=np.float64),
        bound,
        solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible,
    )


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
