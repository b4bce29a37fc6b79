"""Machine code: which functions have it, where it is kept, who makes it, and what runs until it is there.

    kernel.py           `@kernel`: a function that runs as machine code, or as plain Python until it has some
    fingerprint.py      what machine code depends on: the function, all that it calls, the versions, the processor
    shelf.py            where machine code is kept: the installation's own, the user's cache, what the driver sent
    policy.py           what happens where machine code is missing: compile it here, run plain Python, or refuse
    wanted.py           what ran as plain Python and should be compiled
    compiler.py         the process in which compiling happens beside a job
    compile_process.py  that process

Importing `trimtab.machine_code.kernel` imports Numba (0.3 s); nothing else here does.
"""
