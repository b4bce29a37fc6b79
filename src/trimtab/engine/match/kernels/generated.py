"""Generated source made callable: interpreted at once, or as machine code.

Compiling takes seconds, interpreting microseconds a row, so small inputs are interpreted. In a job nothing is compiled
here: rows are interpreted until another process has compiled the machine code (see `trimtab.machine_code`).
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable
from types import ModuleType

from trimtab.engine.match.kernels.helpers import MACHINE_NAMES, PLAIN_NAMES
from trimtab.engine.match.kernels.interface import Inputs, Outputs
from trimtab.machine_code import missing, shelf
from trimtab.machine_code.kernel import Kernel, is_numba_there
from trimtab.machine_code.missing import Missing, when_missing

COMPILE_FROM_ROWS = 150_000
"""From here on compiling (2 to 4 s, once) takes less time than interpreting (1 to 6 us a row of a plain pattern)."""
LOAD_FROM_ROWS = 20_000
"""From here on machine code on disk is worth loading (importing Numba takes about 0.3 s)."""

Runnable = Callable[[Inputs], Outputs]
"""A kernel in any of its forms."""


def load(source: str, rows: int) -> Runnable | None:
    """The source as machine code, if there is some or the number of (plain) rows to process is worth compiling it."""
    return compiled(source) if source in _COMPILED or _is_worth_it(source, rows) else None


def _is_worth_it(source: str, rows: int) -> bool:
    if when_missing() is Missing.COMPILE:
        return rows >= COMPILE_FROM_ROWS or (rows >= LOAD_FROM_ROWS and shelf.has(name_of(source)))
    return shelf.has(name_of(source)) and is_numba_there()


def want(source: str, inputs: Inputs, rows: int) -> None:
    """Request machine code after many rows were interpreted."""
    if rows >= COMPILE_FROM_ROWS and when_missing() is not Missing.COMPILE:
        missing.want(source, inputs.positional())


@functools.lru_cache(maxsize=512)
def interpret(source: str) -> Runnable:
    """The kernel as plain Python."""
    names = dict(PLAIN_NAMES)
    exec(compile(source, "<trimtab kernel>", "exec"), names)
    kernel = names["kernel"]
    return lambda inputs: Outputs.of(kernel(*inputs.as_lists()))


def compiled(source: str) -> Runnable:
    """The kernel as machine code, which is loaded or compiled when it is first called."""
    kernel = kernel_of(source)
    return lambda inputs: Outputs.of(kernel(*inputs.positional()))


_COMPILED: dict[str, Kernel] = {}


def kernel_of(source: str) -> Kernel:
    """The kernel as `trimtab.machine_code` knows it."""
    if source not in _COMPILED:
        # Machine code that is loaded finds the names it needs through its module.
        module = ModuleType(f"trimtab_{name_of(source).replace('.', '_')}")
        vars(module).update(MACHINE_NAMES)
        exec(compile(source, "<trimtab kernel>", "exec"), vars(module))
        sys.modules[module.__name__] = module
        _COMPILED[source] = Kernel(module.kernel, name_of(source), source=source, error_model="numpy")
    return _COMPILED[source]


@functools.lru_cache(maxsize=512)
def name_of(source: str) -> str:
    """The name of a generated kernel's machine code."""
    return f"generated.{hashlib.sha256(source.encode()).hexdigest()[:24]}"
