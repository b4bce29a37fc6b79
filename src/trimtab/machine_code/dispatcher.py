"""Numba's form of a kernel. Importing this module imports Numba; no other module of trimtab does.

Numba by itself compiles every missing function when it is called; here it does so only where that is allowed. Its cache
of files is replaced by the shelf, whose entries are recognised by their content and can be sent to other machines.
"""

# mypy: disable-error-code="misc,no-untyped-call"
from __future__ import annotations

import hashlib
import pickle
import threading
from typing import Any

from numba.core import compiler, types
from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher
from numba.core.runtime.nrt import rtsys

from trimtab.machine_code import shelf
from trimtab.machine_code.kernel import Kernel
from trimtab.machine_code.missing import Missing, NotCompiledError, when_missing
from trimtab.machine_code.shelf import Entry


class Dispatcher(CPUDispatcher):
    """The function that Numba compiles and calls for a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        function, names = kernel.with_own_names()
        kernel.__dict__["machine"] = self  # set before the called kernels are visited: functions may call themselves
        for name, other in kernel.called.items():
            names[name] = other.machine
        options = {"nopython": True, "nogil": True, "error_model": kernel.error_model}
        super().__init__(function, targetoptions=options)
        self.kernel, self._cache = kernel, _Shelved(self)

    def entry(self, arguments: tuple[Any, ...]) -> Entry:
        """The shelf's entry for arguments of these types, on a processor of this kind."""
        context: Any = self.targetctx
        kernel, processor = self.kernel, context.codegen().magic_tuple()
        parts = [kernel.fingerprint, kernel.error_model, *map(str, arguments), *map(str, processor)]
        return Entry(kernel.name, hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32])

    def compile_for(self, arguments: tuple[Any, ...]) -> None:
        """Load machine code for arguments like these from the shelf, or compile it."""
        self.compile(tuple(self.typeof_pyval(argument) for argument in arguments))

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How another kernel calls this one: a literal 3 as any integer, or Numba would compile it for each literal."""
        return super().get_call_template(
            tuple(types.unliteral(each) for each in args), {name: types.unliteral(each) for name, each in kws.items()}
        )

    def compile(self, sig: Any) -> Any:
        """Numba's own method, counted: Numba also calls it for every kernel that another one calls."""
        _compiling.depth += 1
        try:
            return super().compile(sig)
        finally:
            _compiling.depth -= 1

    def _compilation_chain_init_hook(self) -> None:
        """Look for extensions of Numba's compiler only if it is used: that takes a tenth of a second."""
        if when_missing() is Missing.COMPILE:
            super()._compilation_chain_init_hook()

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        try:
            return super()._compile_for_args(*args, **kws)
        except NotCompiledError:
            return self.kernel.without_machine_code(args)  # Numba calls the function that is returned here


class _Compiling(threading.local):
    """How many kernels this thread is compiling, each called by the one before."""

    depth = 0


_compiling = _Compiling()


class _Shelved(NullCache):
    """The shelf as Numba's cache: read before a function is compiled, written afterwards."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Machine code for a signature; None: compile it. Raises NotCompiledError where that is not allowed.

        Numba's own method also sets up its compiler, which takes a third of a second and isn't needed to load code.
        """
        code = shelf.read(self._dispatcher.entry(_arguments(sig)))
        if code is not None:
            rtsys.initialize(target_context)  # it counts the references to arrays that kernels make
            return compiler.CompileResult._rebuild(target_context, *pickle.loads(code))
        if when_missing() is not Missing.COMPILE:
            raise NotCompiledError(self._dispatcher.kernel.name)
        return None

    def save_overload(self, sig: Any, cres: Any) -> None:
        """Keep what was compiled, unless it was compiled as a part of another kernel, which holds a copy of it."""
        if _compiling.depth == 1 and not cres.lifted and not cres.library.has_dynamic_globals:
            shelf.write(self._dispatcher.entry(_arguments(sig)), _packed(cres))


def _packed(cres: Any) -> bytes:
    library, descriptor, environment, signature, objectmode, lifted, _annotation, *rest = cres._reduce()
    # Without the annotated source, which is never read and is as long as the code itself.
    return pickle.dumps((library, descriptor, environment, signature, objectmode, lifted, "", *rest), protocol=5)


def _arguments(signature: Any) -> tuple[Any, ...]:
    return tuple(getattr(signature, "args", signature))
