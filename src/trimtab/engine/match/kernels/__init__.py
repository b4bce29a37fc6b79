"""From a program to kernels: source code that runs as plain Python or as machine code.

interface.py        what every kernel takes and gives back
plan.py             what a query needs of its kernel; what a reported match consists of
codegen.py          which kernel a query gets
kernel_writer.py    what all kernels of a query share: registers, what is known of them, code for conditions
emit.py             code for places, registers and their updates
emit_numeric.py     conditions as machine arithmetic; with emit_calls.py (functions) and lowered.py (types)
emit_object.py      conditions over Python values
automaton.py        the kernel of plain patterns; with configurations.py
thread_kernel.py    the general kernel; with template.py, thread_batch.py, thread_row.py
generated.py        source made callable; helpers.py has the functions that it calls
bounds.py           whether numbers fit machine code
"""
