"""The process in which machine code is made.

It reads requests from its standard input and answers on its standard output, one after the other, both pickled. It ends
when its input does, that is with whoever started it. Compiling holds the interpreter's lock for seconds, which is why
it is done in no other process.
"""

from __future__ import annotations

import importlib
import os
import pickle
import queue
import sys
import threading
import traceback
from dataclasses import dataclass, field
from typing import IO, Any

from trimtab.machine_code import shelf
from trimtab.machine_code.shelf import Entry
from trimtab.machine_code.wanted import Note, example_of

LOWEST_PRIORITY = 19


@dataclass(frozen=True, slots=True)
class Request:
    """Something to do: a function that calls all kernels that are wanted, by its module and name, with its argument."""

    number: int
    module: str
    function: str
    argument: bytes  # pickled; it may need modules that only this process should import


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request: the machine code that there is for it, or what went wrong."""

    number: int
    made: dict[Entry, bytes] = field(default_factory=dict)  # with digests
    error: str = ""


def compile_noted(notes: tuple[Note, ...]) -> None:
    """Have machine code for what others ran as plain Python."""
    for note in notes:
        arguments = tuple(example_of(each) for each in note.types)
        _kernel_of(note).machine.compile_for(arguments)


def _kernel_of(note: Note) -> Any:
    if isinstance(note.function, str):
        # The engine generates functions and knows how; asked for by name, as it stands above this package.
        return importlib.import_module("trimtab.engine.match.kernels.generated").kernel_of(note.function)
    module, name = note.function
    importlib.import_module(module)
    return importlib.import_module("trimtab.machine_code.kernel").by_name(module, name)


def answer(request: Request) -> Answer:
    """Do what was asked for."""
    shelf.touched.clear()
    try:
        function = getattr(importlib.import_module(request.module), request.function)
        function(pickle.loads(request.argument))
    except Exception:
        return Answer(request.number, dict(shelf.touched), traceback.format_exc())
    return Answer(request.number, dict(shelf.touched))


def main() -> None:
    """Answer requests until there are no more."""
    os.nice(LOWEST_PRIORITY)
    sys.path[:] = pickle.load(sys.stdin.buffer)  # of the process that asks: users' own modules may be needed
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    requests: queue.SimpleQueue[Request] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin.buffer, requests), daemon=True).start()
    while True:
        pickle.dump(answer(requests.get()), answers)
        answers.flush()


def _read(source: IO[bytes], requests: queue.SimpleQueue[Request]) -> None:
    """Take requests in; end the process, whatever it is doing, when nobody is there any more to ask."""
    try:
        while True:
            requests.put(pickle.load(source))
    finally:
        os._exit(0)
