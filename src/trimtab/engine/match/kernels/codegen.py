"""Which kernel a query gets: the automaton where the pattern is plain, the general one otherwise."""

from __future__ import annotations

from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels.automaton import write_automaton
from trimtab.engine.match.kernels.configurations import TooLarge
from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.kernels.thread_kernel import tables_of, write_threads

MOST_LINES = 500  # of an automaton: one of 1,357 lines wasn't compiled after five minutes, with 2 GB


def generate(
    query: MatchQuery, program: Program, nullable: frozenset[str], nan: bool, *, deterministic: bool = True
) -> Generated:
    """Generate the kernel: over machine numbers if every condition can be computed with them, else over Python values.

    `nullable` are the columns with nulls, `nan` says whether NaN occurs: tests that can't be true are left out.
    `deterministic` False forbids the automaton.
    """
    try:
        kernel = KernelWriter(query, program, nullable, nan, objects=False)
    except NotCompilable:
        kernel = KernelWriter(query, program, nullable, nan, objects=True)
    if deterministic and kernel.may_be_deterministic and len(kernel.layout.registers) < MOST_LINES:  # a line each
        try:
            source, configurations = write_automaton(kernel)
            if source.count("\n") <= MOST_LINES:
                return kernel.generated(source, configurations)
        except TooLarge:
            pass
        kernel = KernelWriter(query, program, nullable, nan, objects=False)
    tables = tables_of(kernel)
    return kernel.generated(write_threads(kernel), tables=tables)
