"""The general kernel when matches are certain: they are reported, and what they skip is dropped.

Blocks of `thread_kernel.py`, written as `template.py` reads them.
"""

from __future__ import annotations

REPORT_MATCHES = """
                    |reported = 0
                    |while reported < thread_count and current_ints[reported * THREAD_INTS + POSITION] == DONE:
                    |    reported_at = reported * THREAD_INTS
unmatched           |    bound = current_ints[reported_at + START]
unmatched           |    UNMATCHED_ROWS
                    |    number += 1
paths               |    PATH
                    |    ROOM_FOR_A_MATCH
                    |    field_at = match_count * MATCH_INTS
                    |    MATCH_FIELDS
                    |    match_count += 1
unmatched           |    last_row = current_ints[reported_at + END]
unmatched           |    front = max(front, (current_ints[reported_at + START] if last_row < 0 else last_row) + 1)
                    |    reported += 1
skip_to             |    SKIP_TO
sequential          |    row = attempt_row + 1
sequential past_last|    row = max(row, current_ints[reported_at + END] + 1)
sequential skip_to  |    if current_ints[reported_at + END] >= 0:
sequential skip_to  |        row = max(row, current_ints[reported_at + SKIP_TARGET])
sequential          |    thread_count = 0
sequential          |    reported = -1
sequential          |    break
"""
"""A thread that has ended and is first in the list is a match: no preferred thread is left that could replace it. Where
attempts run one after another, the next one starts at the row that the match skips to."""

ROOM_FOR_A_MATCH = """
             |if match_count == match_capacity:
             |    match_capacity *= 2
             |    match_ints = grow_ints(match_ints, match_capacity * MATCH_INTS, match_count * MATCH_INTS)
match_floats |    used = match_count * MATCH_FLOATS
match_floats |    match_floats = grow_floats(match_floats, match_capacity * MATCH_FLOATS, used)
"""
"""The number of matches isn't known before: they may overlap."""

UNMATCHED_ROWS = """
|while front < bound:
|    ROOM_FOR_A_MATCH
|    UNMATCHED_FIELDS
|    match_count += 1; front += 1
"""
"""The rows before `bound` are decided. Those from `front` on are in no match."""

PATH = """
|node = current_ints[reported_at + NODE]; length = 0
|while node >= 0:
|    length += 1; node = node_parents[node]
|if path_count + length > path_capacity:
|    path_capacity = 2 * (path_count + length)
|    path_rows = grow_ints(path_rows, path_capacity, path_count)
|    path_positions = grow_ints(path_positions, path_capacity, path_count)
|node = current_ints[reported_at + NODE]; place = path_count + length
|while node >= 0:
|    place -= 1; path_rows[place] = node_rows[node]; path_positions[place] = node_positions[node]
|    node = node_parents[node]
|path_count += length
"""
"""The rows of the match, found backwards from its last node."""

SKIP_TO = """
|if current_ints[reported_at + END] >= 0:
|    skip_row = current_ints[reported_at + SKIP_TARGET]
|    if skip_row < 0 or skip_row == current_ints[reported_at + START]:
|        if error == 0:
|            error = ERROR_SKIP_MISSING if skip_row < 0 else ERROR_SKIP_FIRST
|            error_key = key
|        broken = True
|    while reported < thread_count and current_ints[reported * THREAD_INTS + START] < skip_row:
|        reported += 1
"""
"""AFTER MATCH SKIP TO a variable's row: attempts that started before it are dropped. It must be there, and it must not
be the row where the match starts, or the same match would be found for ever."""

NEXT_ATTEMPT = """
         |if reported < 0:
         |    continue
         |if thread_count == 0:
unmatched|    bound = attempt_row + 1
unmatched|    UNMATCHED_ROWS
         |    row = attempt_row + 1
         |    continue
"""
"""Where attempts run one after another: the next one follows a match or an attempt that failed."""

DROP_REPORTED = """
       |if reported > 0:
       |    thread_count -= reported
       |    for field in range(thread_count * THREAD_INTS):
       |        current_ints[field] = current_ints[reported * THREAD_INTS + field]
floats |    for field in range(thread_count * THREAD_FLOATS):
floats |        current_floats[field] = current_floats[reported * THREAD_FLOATS + field]
objects|    for field in range(thread_count * THREAD_OBJECTS):
objects|        current_objects[field] = current_objects[reported * THREAD_OBJECTS + field]
"""
"""The threads that are left move to the front of the list."""
