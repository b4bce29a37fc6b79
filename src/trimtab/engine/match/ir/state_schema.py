"""The state of a pattern between two batches: its tables and their columns, by name. See `operator.State`.

keys     the partition columns and the deadline, then as far as the query needs it
  number   the number of matches so far
  begun    1 if rows were processed already, else 0
  tail     how many rows before the next one to process PREV may read
  front    how many rows before it are undecided: they may still become part of a match
rows     the rows of each key that are still needed, with the columns that are read and aren't in `keys`, then
  pending  whether the row is still to be processed; processed rows come first
threads  the partial matches, best first; their registers are in numbered columns, see below. Their last node is only
         there where nodes are
nodes    the paths of partial matches, where a query needs every row of a match: a row, the position in the pattern
         that it was matched at, and the node before it. Rows and nodes count from their key's first

Earlier builds wrote all columns of `keys`, with the deadline last, all of `rows`, and all of `threads`; what is missing
is 0, or no node.
"""

from __future__ import annotations

from trimtab.keyed_state import DEADLINE, KEY, PATTERN_COLUMNS

ROWS, THREADS, NODES = "rows", "threads", "nodes"

NUMBER, BEGUN, TAIL, FRONT = PATTERN_COLUMNS
KEY_COLUMNS = (*PATTERN_COLUMNS, DEADLINE)
PENDING = "pending"
NODE_COLUMNS = ("row", "position", "parent")
INTS, FLOATS, OBJECTS = "i", "f", "o"
"""What columns of registers begin with; their number follows. The first integers are the fixed fields of a thread. An
object is a list with a struct of values for each row, whose fields are `a0`, `a1` and so on."""

RESERVED = frozenset({KEY, PENDING, *KEY_COLUMNS})
"""Names that columns of a pattern's input can't have: `keys` and `rows` have columns of these names."""
