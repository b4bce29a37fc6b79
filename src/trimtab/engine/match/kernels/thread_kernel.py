"""The general kernel: plain Python source that Numba compiles, or that runs as it is.

The kernel reads the rows of each key once, in order. Between two rows it holds the key's *threads* in order of
preference: first by the row where the attempt starts, then as the pattern prefers. A thread is a list of numbers:
position, first row, last row, path node, registers. Three rules keep the number of threads small:

- A thread that ends cuts off all less preferred threads of its attempt; under SKIP PAST LAST ROW also every attempt
  that starts inside the ended match, since the match is certain to be reported and only a longer one can replace it.
- Of two threads with the same position and equal registers, as far as later conditions read them, the less preferred
  one is dropped: they have the same future. Under SKIP PAST LAST ROW this holds between attempts too.
- A match is reported as soon as its thread is the first in the list: no preferred thread is left.

An attempt starts on every row on which one may (`beginnings.py`) while others are under way, so no row is read twice or
has to be kept for that. Only
where a condition needs MATCH_NUMBER(), which an attempt can't know before the earlier ones are decided, attempts run
one after another and rows are read again (`sequential`).

The source is a template (see `template.py`) whose outline is below. Its blocks are in `thread_batch.py` and
`thread_row.py`, in the order in which they run; the functions at the end of this file write what depends on the query's
labels and measures. The program's steps are tables, so the size of the code grows with the number of labels and not
with the pattern.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trimtab.engine.columns.arrays import Int64Array
from trimtab.engine.match.compile import registers
from trimtab.engine.match.compile.program import DONE
from trimtab.engine.match.compile.registers import END, START, Bank, Register, RowRef
from trimtab.engine.match.ir.pattern import Anchor
from trimtab.engine.match.ir.query import SkipTo
from trimtab.engine.match.kernels import interface
from trimtab.engine.match.kernels import thread_batch as batch
from trimtab.engine.match.kernels import thread_row as one_row
from trimtab.engine.match.kernels.beginnings import begins
from trimtab.engine.match.kernels.emit import Thread, Writer
from trimtab.engine.match.kernels.interface import KIND_MATCH, KIND_UNMATCHED, NO_WATERMARK, RESULTS, Tables, parameters
from trimtab.engine.match.kernels.kernel_writer import KernelWriter
from trimtab.engine.match.kernels.template import Block, fill

NO_ANCHOR, AT_START, AT_END, AT_TIMEOUT = range(4)
_ANCHORS = {
    frozenset[Anchor](): NO_ANCHOR,
    frozenset({Anchor.START}): AT_START,
    frozenset({Anchor.END}): AT_END,
    frozenset({Anchor.TIMEOUT}): AT_TIMEOUT,
}
"""Numbers for the anchors of a step. END and TIMEOUT together are END, which ends every thread in any case."""
WAITS, MAY_END, STAMPED = 1, 2, 4
"""Another row may follow the position; a match may end with its row; a second thread on the same row is a twin."""

THREADS_AT_FIRST, NODES_AT_FIRST, SAVED_AT_FIRST = 32, 256, 256
"""For how many there is room when a kernel begins."""

CONSTANTS = {
    name: value
    for names in (vars(registers), vars(interface), globals())
    for name, value in names.items()
    if name.isupper() and isinstance(value, int)
}
"""The numbers that templates use under the names that they have here and in the two modules."""

OUTLINE = """
                     |def kernel(PARAMETERS):
                     |    ROOM
                     |    key = 0; is_full = True
                     |    while is_full:
                     |        MORE_ROOM
                     |        is_full = False
                     |        while key < key_count and not is_full:
                     |            LOAD_THREADS
                     |            BEGIN_KEY
                     |            while not is_full:
                     |                no_more_rows = row >= stop  # only time can decide now
                     |                if no_more_rows:
                     |                    if broken or error != 0 or thread_count == 0 or (closing == 0 and NOT_TIMED):
                     |                        break
choosy               |                begins = False
choosy               |                if not no_more_rows:
choosy               |                    WHETHER_IT_BEGINS
choosy               |                    if thread_count == 0 and not begins:
choosy               |                        row += 1
choosy               |                        continue
                     |                IS_ROOM_ENOUGH
                     |                START_ATTEMPT
                     |                for thread in range(tried_count):
                     |                    TRY_THREAD
                     |                NEXT_THREADS
                     |                REPORT_MATCHES
paths                |                if is_full:
paths                |                    break
sequential           |                NEXT_ATTEMPT
                     |                DROP_REPORTED
                     |                if no_more_rows:
                     |                    break
                     |                row += 1
unmatched !sequential|                bound = thread_ints[list_at * THREAD_INTS + START] if thread_count > 0 else row
unmatched !sequential|                UNMATCHED_ROWS
unmatched            |            if closing != 0 and not broken and not is_full:
unmatched            |                ROOM_AT_THE_END
unmatched            |                if not is_full:
unmatched            |                    bound = stop
unmatched            |                    UNMATCHED_ROWS
                     |            if broken:
                     |                thread_count = 0
                     |            ROOM_TO_SAVE
                     |            if is_full:
                     |                BEGIN_AGAIN
                     |            else:
                     |                SAVE_THREADS
                     |    saved_offsets[key_count] = saved_count
                     |    return (RESULTS)
"""
"""A key is done when its rows are processed and time decides nothing more. Rows before the oldest attempt under way are
decided: those that are in no match are reported as unmatched."""

BLOCKS: dict[str, Block] = {
    name: text for module in (batch, one_row) for name, text in vars(module).items() if name.isupper()
}
"""Each block under the name that it has in its module."""


def write_threads(kernel: KernelWriter) -> str:
    """The general kernel's source for a query."""
    skip, layout, choice = kernel.query.skip, kernel.layout, begins(kernel)
    flags = {
        "choosy": choice is not None,
        "paths": kernel.paths, "sequential": kernel.sequential, "timed": kernel.timed, "past_last": kernel.past_last,
        "unmatched": kernel.unmatched, "skip_to": isinstance(skip, SkipTo), "match_floats": bool(kernel.float_fields),
        "ints": True, "floats": bool(layout.floats), "objects": bool(layout.objects),
    }  # fmt: skip
    written: dict[str, Block] = {
        "WHETHER_IT_BEGINS": choice or (),
        "INITIAL_REGISTERS": _initial_registers(kernel),
        "CONDITIONS_AND_REGISTERS": _conditions_and_registers(kernel),
        "MATCH_FIELDS": _match_fields(kernel),
        "UNMATCHED_FIELDS": _unmatched_fields(kernel),
    }
    target = layout.at[RowRef(skip.labels, skip.side, 0, 0)] if isinstance(skip, SkipTo) else 0
    widest = max([len(p.steps) for p in kernel.program.positions] + [len(kernel.program.start)])
    within = kernel.literal(str(kernel.query.within_us)) if kernel.timed else ""
    taken = parameters(len(kernel.columns.names), len(kernel.literals.names), tables=True)
    names = CONSTANTS | {
        "THREAD_INTS": layout.int_width, "THREAD_FLOATS": len(layout.floats), "THREAD_OBJECTS": len(layout.objects),
        "MATCH_INTS": len(kernel.fields), "MATCH_FLOATS": len(kernel.float_fields),
        "BEFORE_FIRST": len(kernel.program.positions), "MOST_STEPS": widest + 2, "SKIP_TARGET": target, "DONE": DONE,
        "WITHIN": within, "NOT_TIMED": f"watermark <= {NO_WATERMARK}" if kernel.timed else "True",
        "PARAMETERS": taken, "RESULTS": RESULTS,
    }  # fmt: skip
    return fill(OUTLINE, flags, BLOCKS | written, names) + "\n"


def _initial_registers(kernel: KernelWriter) -> list[str]:
    """The registers of a thread that starts on this row."""
    lines = [f"{_place(kernel, 'current', register)} = {register.initial!r}" for register in kernel.layout.registers]
    return lines or ["pass"]


def _conditions_and_registers(kernel: KernelWriter) -> list[str]:
    """For each label: its condition, and if it holds the registers of the thread that has consumed the row."""
    kernel.write = write = Writer()
    used = sorted({p.label for p in kernel.program.positions})
    for number, label in enumerate(used):
        with write.block(f"{'if' if number == 0 else 'elif'} label == {label}:"):
            emitter = kernel.emitter(label, Thread())
            condition = kernel.query.conditions[label]
            with write.block(f"if {emitter.condition(condition) if condition is not None else 'True'}:"):
                for register in kernel.layout.registers:
                    write(f"{_place(kernel, 'next', register)} = {emitter.updated(register)}")
                write("holds = True")
    return write.lines or ["pass"]


def _place(kernel: KernelWriter, which: str, register: Register) -> str:
    """Code for a register of the thread that meets the row (`current`), or of the one that it becomes (`next`)."""
    name = register.bank.value
    offset = f"{name}_at" if which == "current" else f"{which}_{name}_at"
    return f"thread_{name}s[{offset} + {kernel.layout.at[register]}]"


def _match_fields(kernel: KernelWriter) -> list[str]:
    """Write the integers and floats of the reported match."""
    code = {
        "key": "key", "kind": str(KIND_MATCH), "number": "number", "start": f"thread_ints[reported_at + {START}]",
        "end": f"thread_ints[reported_at + {END}]", "begin": "path_count - length", "length": "length",
    }  # fmt: skip
    lines = []
    for at, field in enumerate(kernel.fields):
        value = code[field] if isinstance(field, str) else f"thread_ints[reported_at + {kernel.layout.at[field]}]"
        lines.append(f"match_ints[field_at + {at}] = {value}")
    for at, register in enumerate(kernel.float_fields):
        value = f"thread_floats[(list_at + reported) * {len(kernel.layout.floats)} + {kernel.layout.at[register]}]"
        lines.append(f"match_floats[match_count * {len(kernel.float_fields)} + {at}] = {value}")
    return lines


def _unmatched_fields(kernel: KernelWriter) -> list[str]:
    """Write the integers of a row that is in no match."""
    code = {"key": "key", "kind": str(KIND_UNMATCHED), "start": "front", "begin": "path_count", "length": "0"}
    return [
        f"match_ints[match_count * {len(kernel.fields)} + {at}] = {code.get(str(field), '-1')}"
        for at, field in enumerate(kernel.fields)
    ]


def tables_of(kernel: KernelWriter) -> Tables:
    """The program's steps, labels and comparisons as arrays."""
    program = kernel.program
    # An unconditional end was taken when the row was consumed; the other steps are still to be tried.
    steps = [*(p.steps[: len(p.steps) - p.may_end] for p in program.positions), program.start]
    flat = [step for each in steps for step in each]
    flags = [
        WAITS * p.waits + MAY_END * p.may_end + STAMPED * (p.waits and kernel.stamped(i))
        for i, p in enumerate(program.positions)
    ]
    compared = []
    for each in Bank:
        fields = [[kernel.layout.at[r] for r in registers if r.bank is each] for registers in kernel.compared]
        compared += [_offsets(fields), _array([field for position in fields for field in position])]
    return Tables(
        _offsets(steps),
        _array([step.target for step in flat]),
        _array([_ANCHORS.get(step.when, AT_END) for step in flat]),
        _array([p.label for p in program.positions]),
        _array(flags),
        *compared,
    )


def _array(values: list[int]) -> Int64Array:
    return np.array(values or [0], np.int64)


def _offsets(parts: Sequence[Sequence[object]]) -> Int64Array:
    """Where each part begins if they are put one after another, and where the last one ends."""
    return np.cumsum([0, *map(len, parts)], dtype=np.int64)
