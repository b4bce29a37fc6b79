"""Which kernel a query gets: the automaton where the pattern is plain, the general one otherwise."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.engine.match.compile.program import Program
from trimtab.engine.match.ir.query import MatchQuery
from trimtab.engine.match.kernels.automaton import write_automaton
from trimtab.engine.match.kernels.configurations import TooLarge
from trimtab.engine.match.kernels.emit import NotCompilable
from trimtab.engine.match.kernels.interface import Tables
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.plan import Generated
from trimtab.engine.match.kernels.tables import tables_of
from trimtab.engine.match.kernels.thread_kernel import write_threads


@dataclass(frozen=True)
class KernelPlan:
    """A generated kernel and the tables that it reads (the automaton reads none)."""

    generated: Generated
    tables: Tables | tuple[()]


def generate(
    query: MatchQuery, program: Program, nullable: frozenset[str], nan: bool, *, deterministic: bool = True
) -> KernelPlan:
    """Generate the kernel: of machine numbers where every condition has such a form, else over Python values.

    `nullable` are the columns that hold nulls, `nan` says whether NaN occurs: tests that can't be true are left out.
    `deterministic` False forbids the automaton.
    """
    try:
        kernel = KernelWriter(query, program, nullable, nan, objects=False)
    except NotCompilable:
        kernel = KernelWriter(query, program, nullable, nan, objects=True)
    if deterministic and kernel.may_be_deterministic:
        try:
            source, configurations = write_automaton(kernel)
            return KernelPlan(kernel.generated(source, configurations), ())
        except TooLarge:
            kernel = KernelWriter(query, program, nullable, nan, objects=False)
    source = write_threads(kernel)
    return KernelPlan(kernel.generated(source), tables_of(kernel))
