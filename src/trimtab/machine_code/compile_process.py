"""The process in which machine code is made.

It reads requests from its standard input and answers on its standard output, one after the other, both pickled. A
request is a function, which calls all kernels that are wanted, and its argument, pickled once more. The process ends
when its input ends, that is with the process that started it. Compiling holds the interpreter's lock for seconds, so a
job compiles only here.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from typing import IO, Any

from trimtab.machine_code import shelf
from trimtab.machine_code.missing import Note, example_of
from trimtab.machine_code.shelf import Entry

LOWEST_PRIORITY = 19

Answer = tuple[dict[Entry, bytes], str]
"""The result of a request: the machine code that was loaded or made, with digests, and the error if there was one."""


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
    """Call the requested function."""
    shelf.touched.clear()
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
