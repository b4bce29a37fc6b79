"""`@kernel`: a function over arrays that runs as machine code, or as plain Python until that is made.

Numba is imported only when there is machine code to run or to make, and in a stream by a thread: importing it takes
0.3 s, and ten times as long where Python has no bytecode of it yet.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from functools import cached_property, update_wrapper
from types import FunctionType
from typing import Any

import numpy as np

from trimtab.machine_code import shelf
from trimtab.machine_code.fingerprint import fingerprint, referred_names
from trimtab.machine_code.missing import Missing, NotCompiledError, want, when_missing

_KERNELS: dict[tuple[str, str], Kernel] = {}
_import_lock = threading.Lock()
_imports: list[threading.Thread] = []


def kernel(function: Callable[..., Any]) -> Any:
    """Make a function a kernel: one that Numba can compile, and that other kernels may call."""
    made = Kernel(function, f"{function.__module__}.{function.__qualname__}")
    _KERNELS[function.__module__, function.__qualname__] = made
    return made


def by_name(module: str, name: str) -> Kernel:
    """The kernel of that name; its module has been imported."""
    return _KERNELS[module, name]


def is_numba_there() -> bool:
    """Whether Numba is imported; if not, start importing it in a thread. The caller runs plain Python until then."""
    with _import_lock:
        if not _imports:
            module = "trimtab.machine_code.dispatcher"
            thread = threading.Thread(target=importlib.import_module, args=(module,), name="trimtab-numba", daemon=True)
            thread.start()
            _imports.append(thread)
        return not _imports[0].is_alive()


class Kernel:
    """A function with the forms in which it can run.

    `name`: the name of its machine code on the shelf. `source`: the text of a generated function, None for others.
    `error_model`: "numpy" if a division by zero gives infinity, "python" if it raises.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, source: str | None = None, error_model: str = "python"
    ) -> None:
        assert isinstance(function, FunctionType)
        self.function, self.name, self.source, self.error_model = function, name, source, error_model
        update_wrapper(self, function)

    def __call__(self, *arguments: Any) -> Any:
        """Run machine code if there is some or it may be compiled here, else plain Python."""
        if "machine" in self.__dict__ or when_missing() is Missing.COMPILE or self._can_be_loaded:
            return self.machine(*arguments)
        return self.without_machine_code(arguments)(*arguments)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by name: machine code isn't pickled with it."""
        return by_name, self.wanted_as

    @property
    def wanted_as(self) -> tuple[str, str] | str:
        """How another process finds it."""
        return self.source or (self.function.__module__, self.function.__qualname__)

    def without_machine_code(self, arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return what to call instead, and note that machine code is wanted. Raises NotCompiledError under REFUSE."""
        if when_missing() is Missing.REFUSE:
            raise NotCompiledError(self.name)
        want(self.wanted_as, arguments)
        return self.plain

    @property
    def _can_be_loaded(self) -> bool:
        """Whether machine code may be loaded at once. A stream doesn't even wait until Numba is imported."""
        return shelf.has(self.name) and (when_missing() is Missing.REFUSE or is_numba_there())

    @cached_property
    def machine(self) -> Any:
        """Numba's form of the function, a `Dispatcher`, which loads or compiles machine code."""
        from trimtab.machine_code.dispatcher import Dispatcher

        return Dispatcher(self)

    def plain(self, *arguments: Any) -> Any:
        """Run as plain Python."""
        with np.errstate(all="ignore"):  # machine code doesn't warn either
            return self._twin(*arguments)

    @cached_property
    def _twin(self) -> FunctionType:
        """The function with the kernels that it calls as plain Python, too: each call has to be cheap."""
        twin, names = self.with_own_names()
        self.__dict__["_twin"] = twin  # set before the called kernels are visited: functions may call themselves
        for name, other in self.called.items():
            names[name] = other._twin
        return twin

    def with_own_names(self) -> tuple[FunctionType, dict[str, Any]]:
        """A copy of the function, and its globals, which the caller may change."""
        function = self.function
        names = dict(function.__globals__)
        copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
        copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
        return copy, names

    @property
    def called(self) -> dict[str, Kernel]:
        """The kernels that the function refers to, by the names that it has for them."""
        names = ((name, self.function.__globals__.get(name)) for name in referred_names(self.function.__code__))
        return {name: value for name, value in names if isinstance(value, Kernel)}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of everything that the machine code depends on, except argument types and the processor."""
        return fingerprint(self.function, lambda value: value.function if isinstance(value, Kernel) else None)
