"""Machine code: which functions have it, where it is kept, what makes it, and what runs until it is made.

kernel.py           `@kernel`: a function that runs as machine code, or as plain Python until that is made
dispatcher.py       Numba's form of a kernel; no other module imports Numba
fingerprint.py      what machine code depends on: the function, all that it calls, the versions
shelf.py            where machine code is kept: the installation's own, the user's cache, what the driver sent
missing.py          what happens where machine code is missing: compile it here, run plain Python and note it, or refuse
compiler.py         sends requests to the compile process of a job; that process
"""
