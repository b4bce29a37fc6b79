"""Compiling in the background of a job, in a process of its own: compiling holds the interpreter's lock for seconds.

The job sends requests to the compile process, and passes its answers to callbacks. No batch waits for it. A failure or
the death of the process is logged, and the job goes on without machine code.
"""

from __future__ import annotations

import importlib
import logging
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import IO, Any

from trimtab.machine_code import shelf
from trimtab.machine_code.missing import Note, example_of
from trimtab.machine_code.shelf import Entry

_log = logging.getLogger("trimtab")

LOWEST_PRIORITY = 19
ENDING_S = 10.0
"""How long the process may take to end once it has closed its answers."""

Answer = tuple[dict[Entry, bytes], str]
"""The result of a request: the machine code that there is by then, with digests, and the error if there was one."""
Done = Callable[[dict[Entry, bytes], bool], None]
"""Called in a thread of the compiler with the machine code that there is by then, and whether there was no error."""


class Compiler:
    """A compile process, started with the first request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None  # what the process writes to its standard error
        self._waiting: deque[Done] = deque()  # in the order of the requests, which is that of the answers
        self._is_started = self.is_broken = False

    def ask(self, function: Callable[[Any], None], argument: Any, done: Done) -> None:
        """Have a function called in the compile process, which compiles every kernel that it calls.

        `argument` is pickled; bytes are taken for a pickle and sent as they are.
        """
        packed = argument if isinstance(argument, bytes) else pickle.dumps(argument)
        with self._lock:
            if self.is_broken:
                return
            self._waiting.append(done)
            self._requests.put(pickle.dumps((function, packed)))
            if not self._is_started:
                self._is_started = True
                # In a thread: starting a process and filling a pipe take longer than a batch should wait.
                threading.Thread(target=self._feed, name="trimtab-compiler-requests", daemon=True).start()

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        with self._lock:
            self.is_broken = True
            self._waiting.clear()
            if self._process is not None:
                self._process.kill()
            if self._errors is not None:
                self._errors.close()

    def _feed(self) -> None:
        try:
            self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process may write
            process = subprocess.Popen(
                [sys.executable, "-c", "from trimtab.machine_code.compiler import main; main()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "TRIMTAB_CACHE_DIR": str(shelf.cache().path)},
            )
            with self._lock:
                self._process = process
            threading.Thread(target=self._listen, args=(process,), name="trimtab-compiler-answers", daemon=True).start()
            assert process.stdin is not None
            pickle.dump(list(sys.path), process.stdin)
            while True:
                process.stdin.flush()
                pickle.dump(self._requests.get(), process.stdin)
        except OSError as error:
            with self._lock:
                self._fail(str(error))

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        try:
            while True:
                self._take(pickle.load(process.stdout))
        except Exception as error:  # any error is logged, and the stream goes on
            status = process.wait(ENDING_S) if isinstance(error, EOFError) else error
            with self._lock:
                self._fail(f"the compile process ended with status {status}")

    def _take(self, answer: Answer) -> None:
        made, error = answer
        with self._lock:
            done = self._waiting.popleft() if self._waiting else None
        if error:
            _log.warning("a function could not be compiled, and runs as plain Python:\n%s", error)
        if done is not None:
            done(made, not error)

    def _fail(self, why: str) -> None:
        if self.is_broken:
            return
        self.is_broken = True
        self._waiting.clear()
        errors = ""
        if self._errors is not None:
            self._errors.seek(0)
            errors = self._errors.read()[-2_000:].decode(errors="replace").strip()
            self._errors.close()
        _log.warning("nothing is compiled any more; what has no machine code runs as plain Python: %s\n%s", why, errors)


class Requested:
    """What was requested from a compiler, and what it has compiled of that so far; its answers come in a thread."""

    def __init__(self, compiler: Compiler) -> None:
        self._compiler, self._lock = compiler, threading.Lock()
        self._made: dict[Entry, bytes] = {}
        self._asked: set[Any] = set()

    def ask(self, function: Callable[[Any], None], argument: bytes) -> None:
        """Request machine code for all that a function calls, unless that was done before; see `Compiler.ask`."""
        if (function, argument) not in self._asked:
            self._asked.add((function, argument))
            self._compiler.ask(function, argument, self._take)

    def ask_noted(self, notes: Iterable[Note]) -> None:
        """Request machine code for what ran as plain Python; each note is requested once."""
        fresh = tuple(note for note in dict.fromkeys(notes) if note not in self._asked)
        if fresh:
            self._asked |= set(fresh)
            self._compiler.ask(compile_noted, fresh, self._take)

    def _take(self, made: dict[Entry, bytes], _is_all: bool) -> None:
        self.add(made)

    def add(self, made: Mapping[Entry, bytes]) -> None:
        """Add machine code that was compiled, here or elsewhere."""
        with self._lock:
            self._made |= made

    def made(self) -> dict[Entry, bytes]:
        """Everything compiled so far, with digests."""
        with self._lock:
            return dict(self._made)


_shared_lock = threading.Lock()
_shared: dict[str, Compiler] = {}


def shared_compiler(purpose: str) -> Compiler:
    """The compiler of this process for a purpose; the next job goes on with what it has compiled for earlier ones.

    Each purpose has its own compiler, so that engines don't wait for the planners, which take longest.
    """
    with _shared_lock:
        if purpose not in _shared or _shared[purpose].is_broken:
            _shared[purpose] = Compiler()
        return _shared[purpose]


# The compile process -------------------------------------------------------------------------------
# It reads requests from its standard input and answers on its standard output, one after the other, both pickled. A
# request is a function, which calls all kernels that are wanted, and its argument, pickled once more. The process ends
# when its input ends, that is with the process that started it.


def compile_noted(notes: tuple[Note, ...]) -> None:
    """Compile what other processes ran as plain Python."""
    for note in notes:
        arguments = tuple(example_of(each) for each in note.types)
        _kernel_of(note).machine.compile_for(arguments)


def _kernel_of(note: Note) -> Any:
    if isinstance(note.function, str):
        # The engine makes generated functions. It is imported by name here, because it is a layer above this package.
        return importlib.import_module("trimtab.engine.match.kernels.generated").kernel_of(note.function)
    module, name = note.function
    importlib.import_module(module)
    return importlib.import_module("trimtab.machine_code.kernel").by_name(module, name)


def answer(request: bytes) -> Answer:
    """Call the requested function, and tell of all machine code of this process.

    What an earlier request loaded isn't loaded again, and the request may be that of another stream.
    """
    error = ""
    try:
        function, argument = pickle.loads(request)  # the argument may need modules that only this process should import
        function(pickle.loads(argument))
    except Exception:
        error = traceback.format_exc()
    return dict(shelf.touched), error


def main() -> None:
    """Answer requests until the input ends."""
    os.nice(LOWEST_PRIORITY)
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to a whole group they are for the job, whose end ends this
        signal.signal(number, signal.SIG_IGN)
    sys.path[:] = pickle.load(sys.stdin.buffer)  # of the requesting process: users' own modules may be needed
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what other code prints must not get between the answers
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        pickle.dump(answer(requests.get()), answers)
        answers.flush()


def _read(source: IO[bytes], requests: queue.SimpleQueue[bytes]) -> None:
    """Read requests; end the process, whatever it is doing, when its input ends."""
    try:
        while True:
            requests.put(pickle.load(source))
    finally:
        os._exit(0)
