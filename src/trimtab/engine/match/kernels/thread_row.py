"""The general kernel at one row: each thread of the key is tried on it, the most preferred one first.

Then matches that are certain are reported, and what they skip is dropped. Blocks of `thread_kernel.py`, written as
`template.py` reads them.
"""

from __future__ import annotations

START_ATTEMPT = """
           |next_count = 0; cut = -1; stamp += 1; row_stamp += 1
!past_last |attempt = -1
           |tried_count = thread_count
           |if not no_more_rows:
sequential |    if thread_count == 0:
sequential |        attempt_row = row
timed      |    now = times[row]
!choosy !sequential|    tried_count = thread_count + 1
choosy     |    tried_count = thread_count + 1 if begins else thread_count
sequential |    tried_count = thread_count + 1 if thread_count == 0 else thread_count
banks      |    int_at = (list_at + thread_count) * THREAD_INTS
           |    thread_ints[int_at + POSITION] = BEFORE_FIRST; thread_ints[int_at + START] = row
           |    thread_ints[int_at + END] = -1; thread_ints[int_at + NODE] = -1
           |    INITIAL_REGISTERS
"""
"""An attempt starts on the row as one more thread, the least preferred one, before any position."""

TRY_THREAD = """
banks     |int_at = (list_at + thread) * THREAD_INTS
          |start = thread_ints[int_at + START]
past_last |if start <= cut:
past_last |    continue
!past_last|if start != attempt:
!past_last|    attempt = start; stamp += 1
!past_last|if start == cut:
!past_last|    continue
          |position = thread_ints[int_at + POSITION]
          |NEXT_PLACE
          |ended = position == DONE; waits = False
          |if not ended and no_more_rows:
          |    NO_ROW_FOLLOWS
          |if ended or no_more_rows:
          |    if ended:
          |        COPY_THREAD
          |        thread_ints[next_int_at + POSITION] = DONE; next_count += 1
          |        if position != DONE:
past_last |            cut = thread_ints[int_at + END]
!past_last|            cut = start
          |    continue
timed     |late = now >= times[start] + WITHIN
          |for step in range(steps_from[position], steps_from[position + 1]):
          |    TRY_STEP
"""
"""A thread takes each of its steps that the row allows, unless a preferred thread has ended: attempts that start up to
`cut` (where matches may overlap: the one that starts there) are cut off. A thread that has ended stays as it is."""

NEXT_PLACE = """
banks|next_int_at = (next_at + next_count) * THREAD_INTS
"""
"""Where the next thread that is kept is written."""

NO_ROW_FOLLOWS = """
timed |late = closing != 0 or clock >= times[start] + WITHIN
!timed|late = True
      |waits = not late
      |if late:
      |    for step in range(steps_from[position], steps_from[position + 1]):
      |        if step_targets[step] == DONE:
      |            if step_anchors[step] == AT_END and closing == 0:
      |                waits = True  # too late for a row; the input may end
      |            else:
      |                ended = True
      |                break
      |if waits:
      |    COPY_THREAD
      |    next_count += 1
banks |    next_int_at += THREAD_INTS
"""
"""The input has ended, or no row can come in time: the thread ends if its position has a step that allows it. It may do
both: end by TIMEOUT, and wait for a preferred end by `$`."""

COPY_THREAD = """
used|for field in range(THREAD_INTS):
used|    thread_ints[next_int_at + field] = thread_ints[int_at + field]
"""
"""The thread stays as it is."""

TRY_STEP = """
          |target = step_targets[step]; anchor = step_anchors[step]
          |if anchor == AT_START and row != origin:
          |    continue
          |if target == DONE:
          |    # An empty match, or one that ends because its time is over.
timed     |    if position == BEFORE_FIRST or (anchor == AT_TIMEOUT and late):
!timed    |    if position == BEFORE_FIRST:
          |        NEXT_PLACE
          |        COPY_THREAD
          |        thread_ints[next_int_at + POSITION] = DONE; next_count += 1
past_last |        cut = thread_ints[int_at + END]
!past_last|        cut = start
          |        break
          |    continue
timed     |if late:
timed     |    continue
          |flag = position_flags[target]
          |if flag & STAMPED and taken[target] == stamp:
          |    continue  # checked first: a position that was taken on this row needs no condition
          |label = position_labels[target]
          |NEXT_PLACE
          |holds = False
          |CONDITIONS_AND_REGISTERS
          |if not holds:
          |    continue
          |thread_ints[next_int_at + START] = start; thread_ints[next_int_at + END] = row
          |if flag & STAMPED:
          |    taken[target] = stamp
          |elif flag & WAITS:
          |    SKIP_IF_TWIN
paths     |node_rows[node_count] = row; node_positions[node_count] = target
paths     |node_parents[node_count] = thread_ints[int_at + NODE]
paths     |thread_ints[next_int_at + NODE] = node_count; node_count += 1
          |thread_ints[next_int_at + POSITION] = target if flag & WAITS else DONE
          |next_count += 1
          |if flag & MAY_END:
          |    if flag & WAITS:
          |        ENDED_TWIN
past_last |    cut = row
!past_last|    cut = start
          |    break
"""
"""One step: if its anchor and its label's condition hold, the thread that has consumed the row is kept. If it ends the
match, less preferred steps are not tried."""

SKIP_IF_TWIN = """
                |bucket = target
                |for each in range(compared_ints_from[target], compared_ints_from[target + 1]):
                |    bucket = (bucket * 31 + thread_ints[next_int_at + compared_ints[each]]) & (bucket_count - 1)
past_last timed |bucket = (bucket * 31 + times[start]) & (bucket_count - 1)
!past_last      |bucket = (bucket * 31 + start) & (bucket_count - 1)
                |bucket &= bucket_count - 1
                |if bucket_stamps[bucket] != row_stamp:
                |    bucket_stamps[bucket] = row_stamp; bucket_heads[bucket] = -1
                |twin = bucket_heads[bucket]
                |while twin >= 0:
                |    same = thread_ints[(next_at + twin) * THREAD_INTS + POSITION] == target
past_last timed |    same = same and times[thread_ints[(next_at + twin) * THREAD_INTS + START]] == times[start]
!past_last      |    same = same and thread_ints[(next_at + twin) * THREAD_INTS + START] == start
                |    if same:
used            |        for each in range(compared_ints_from[target], compared_ints_from[target + 1]):
used            |            field = compared_ints[each]
used            |            if thread_ints[(next_at + twin) * THREAD_INTS + field] != thread_ints[next_int_at + field]:
used            |                same = False
                |    if same:
                |        break
                |    twin = bucket_chain[twin]
                |if twin >= 0:
                |    continue
                |bucket_chain[next_count] = bucket_heads[bucket]; bucket_heads[bucket] = next_count
"""
"""The thread is dropped if a preferred one, kept on this row, has the same future. Threads that were kept are found
through a hash table, which a new row empties by raising its stamp."""

ENDED_TWIN = """
used|for field in range(THREAD_INTS):
used|    thread_ints[next_int_at + THREAD_INTS + field] = thread_ints[next_int_at + field]
    |thread_ints[next_int_at + THREAD_INTS + POSITION] = DONE
    |next_count += 1
"""
"""A thread that may end and may go on is kept twice, first as the one that goes on: a longer match is preferred."""

NEXT_THREADS = """
|list_at = next_at; next_at = capacity if list_at == 0 else 0; thread_count = next_count
|if thread_count > thread_limit:
|    error = ERROR_THREADS; error_count += 1
|    if error_key < 0:
|        error_key = key
|    thread_count = 0; broken = True; row = stop
|    break
"""
"""The threads that were kept become the list for the next row. A key with too many threads is given up; other keys go
on, so that the error can say how many keys are affected."""

REPORT_MATCHES = """
                    |reported = 0
                    |while reported < thread_count:
                    |    reported_at = (list_at + reported) * THREAD_INTS
                    |    if thread_ints[reported_at + POSITION] != DONE:
                    |        break
unmatched           |    bound = thread_ints[reported_at + START]
unmatched           |    UNMATCHED_ROWS
                    |    number += 1
paths               |    PATH
                    |    field_at = match_count * MATCH_INTS
                    |    MATCH_FIELDS
                    |    match_count += 1
unmatched           |    last_row = thread_ints[reported_at + END]
unmatched           |    front = max(front, (thread_ints[reported_at + START] if last_row < 0 else last_row) + 1)
                    |    reported += 1
skip_to             |    SKIP_TO
sequential          |    row = attempt_row + 1
sequential past_last|    row = max(row, thread_ints[reported_at + END] + 1)
sequential skip_to  |    if thread_ints[reported_at + END] >= 0:
sequential skip_to  |        row = max(row, thread_ints[reported_at + SKIP_TARGET])
sequential          |    thread_count = 0
sequential          |    reported = -1
sequential          |    break
"""
"""A thread that has ended and is first in the list is a match: no preferred thread is left that could replace it. Where
attempts run one after another, the next one starts at the row that the match skips to."""

UNMATCHED_ROWS = """
|while front < bound:
|    UNMATCHED_FIELDS
|    match_count += 1; front += 1
"""
"""The rows before `bound` are decided. Those from `front` on are in no match."""

PATH = """
|node = thread_ints[reported_at + NODE]; length = 0
|while node >= 0:
|    length += 1; node = node_parents[node]
|paths_wanted = path_count + length
|if paths_wanted > path_capacity:
|    is_full = True
|    break
|node = thread_ints[reported_at + NODE]; place = path_count + length
|while node >= 0:
|    place -= 1; path_rows[place] = node_rows[node]; path_positions[place] = node_positions[node]
|    node = node_parents[node]
|path_count += length
"""
"""The rows of the match, found backwards from its last node."""

SKIP_TO = """
|if thread_ints[reported_at + END] >= 0:
|    skip_row = thread_ints[reported_at + SKIP_TARGET]
|    if skip_row < 0 or skip_row == thread_ints[reported_at + START]:
|        if error == 0:
|            error = ERROR_SKIP_MISSING if skip_row < 0 else ERROR_SKIP_FIRST
|            error_key = key
|        broken = True
|    while reported < thread_count and thread_ints[(list_at + reported) * THREAD_INTS + START] < skip_row:
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
|    thread_count -= reported; list_at += reported
"""
"""The list begins with the threads that are left."""
