"""What operators and the store of their state agree on: the names in a state, and how a key's slot is laid out.

The engine and the store know nothing else of each other, so this stands below both.
"""

from __future__ import annotations

KEYS = "keys"
"""The table of a state with one row per key."""
KEY = "key"
"""The int64 column of every other table: the row of its key in `KEYS`."""
DEADLINE = "deadline_us"
"""The column of `KEYS` with the watermark at which an idle key wants to be visited; null: never."""
PATTERN_COLUMNS = ("number", "begun", "tail", "front")
"""Columns that patterns add to `KEYS`, between the key columns and the deadline. Readers of a checkpoint need this list
to recognise them."""
ROW = "row."
"""In front of the names of columns that windows and users' operators keep of rows."""

SLOT = "__slot"
"""The first partition column of every keyed operator on Spark: the key's hash with its key group in front."""
GROUP_SHIFT = 48
"""A slot is `group << GROUP_SHIFT` plus 48 bits of hash; its key group is `slot >> GROUP_SHIFT`."""
