"""The general kernel at one row: each thread of the key is tried on it, the most preferred one first.

Blocks of `thread_kernel.py`, written as `template.py` reads them.
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
!sequential|    tried_count = thread_count + 1
sequential |    tried_count = thread_count + 1 if thread_count == 0 else thread_count
           |    int_at = thread_count * THREAD_INTS; float_at = thread_count * THREAD_FLOATS
           |    object_at = thread_count * THREAD_OBJECTS
           |    current_ints[int_at + POSITION] = BEFORE_FIRST; current_ints[int_at + START] = row
           |    current_ints[int_at + END] = -1; current_ints[int_at + NODE] = -1
           |    INITIAL_REGISTERS
"""
"""An attempt starts on the row as one more thread, the least preferred one, before any position."""

TRY_THREAD = """
          |int_at = thread * THREAD_INTS; float_at = thread * THREAD_FLOATS; object_at = thread * THREAD_OBJECTS
          |start = current_ints[int_at + START]
past_last |if start <= cut:
past_last |    continue
!past_last|if start != attempt:
!past_last|    attempt = start; stamp += 1
!past_last|if start == cut:
!past_last|    continue
          |position = current_ints[int_at + POSITION]
          |NEXT_PLACE
          |ended = position == DONE; waits = False
          |if not ended and no_more_rows:
          |    NO_ROW_FOLLOWS
          |if ended or no_more_rows:
          |    if ended:
          |        COPY_THREAD
          |        next_ints[next_int_at + POSITION] = DONE; next_count += 1
          |        if position != DONE:
past_last |            cut = current_ints[int_at + END]
!past_last|            cut = start
          |    continue
timed     |late = now >= times[start] + WITHIN
          |for step in range(steps_from[position], steps_from[position + 1]):
          |    TRY_STEP
"""
"""A thread takes each of its steps that the row allows, unless a preferred thread has ended: attempts that start up to
`cut` (where matches may overlap: the one that starts there) are cut off. A thread that has ended stays as it is."""

NEXT_PLACE = """
|next_int_at = next_count * THREAD_INTS; next_float_at = next_count * THREAD_FLOATS
|next_object_at = next_count * THREAD_OBJECTS
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
      |    next_count += 1; next_int_at += THREAD_INTS
      |    next_float_at += THREAD_FLOATS; next_object_at += THREAD_OBJECTS
"""
"""The input has ended, or no row can come in time: the thread ends if its position has a step that allows it. It may do
both: end by TIMEOUT, and wait for a preferred end by `$`."""

COPY_THREAD = """
       |for field in range(THREAD_INTS):
       |    next_ints[next_int_at + field] = current_ints[int_at + field]
floats |for field in range(THREAD_FLOATS):
floats |    next_floats[next_float_at + field] = current_floats[float_at + field]
objects|for field in range(THREAD_OBJECTS):
objects|    next_objects[next_object_at + field] = current_objects[object_at + field]
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
          |        next_ints[next_int_at + POSITION] = DONE; next_count += 1
past_last |        cut = current_ints[int_at + END]
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
          |next_ints[next_int_at + START] = start; next_ints[next_int_at + END] = row
          |if flag & STAMPED:
          |    taken[target] = stamp
          |elif flag & WAITS:
          |    SKIP_IF_TWIN
paths     |node_rows[node_count] = row; node_positions[node_count] = target
paths     |node_parents[node_count] = current_ints[int_at + NODE]
paths     |next_ints[next_int_at + NODE] = node_count; node_count += 1
          |next_ints[next_int_at + POSITION] = target if flag & WAITS else DONE
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
                |    bucket = (bucket * 31 + next_ints[next_int_at + compared_ints[each]]) & (bucket_count - 1)
past_last timed |bucket = (bucket * 31 + times[start]) & (bucket_count - 1)
!past_last      |bucket = (bucket * 31 + start) & (bucket_count - 1)
                |bucket &= bucket_count - 1
                |if bucket_stamps[bucket] != row_stamp:
                |    bucket_stamps[bucket] = row_stamp; bucket_heads[bucket] = -1
                |twin = bucket_heads[bucket]
                |while twin >= 0:
                |    same = next_ints[twin * THREAD_INTS + POSITION] == target
past_last timed |    same = same and times[next_ints[twin * THREAD_INTS + START]] == times[start]
!past_last      |    same = same and next_ints[twin * THREAD_INTS + START] == start
                |    if same:
                |        for each in range(compared_ints_from[target], compared_ints_from[target + 1]):
                |            field = compared_ints[each]
                |            if next_ints[twin * THREAD_INTS + field] != next_ints[next_int_at + field]:
                |                same = False
floats          |        for each in range(compared_floats_from[target], compared_floats_from[target + 1]):
floats          |            field = compared_floats[each]
floats          |            if next_floats[twin * THREAD_FLOATS + field] != next_floats[next_float_at + field]:
floats          |                same = False
objects         |        for each in range(compared_objects_from[target], compared_objects_from[target + 1]):
objects         |            field = compared_objects[each]
objects         |            if next_objects[twin * THREAD_OBJECTS + field] != next_objects[next_object_at + field]:
objects         |                same = False
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
       |for field in range(THREAD_INTS):
       |    next_ints[next_int_at + THREAD_INTS + field] = next_ints[next_int_at + field]
floats |for field in range(THREAD_FLOATS):
floats |    next_floats[next_float_at + THREAD_FLOATS + field] = next_floats[next_float_at + field]
objects|for field in range(THREAD_OBJECTS):
objects|    next_objects[next_object_at + THREAD_OBJECTS + field] = next_objects[next_object_at + field]
       |next_ints[next_int_at + THREAD_INTS + POSITION] = DONE
       |next_count += 1
"""
"""A thread that may end and may go on is kept twice, first as the one that goes on: a longer match is preferred."""

NEXT_THREADS = """
|current_ints, next_ints = next_ints, current_ints
|current_floats, next_floats = next_floats, current_floats
|current_objects, next_objects = next_objects, current_objects
|thread_count = next_count
|if thread_count > thread_limit:
|    error = ERROR_THREADS; error_count += 1
|    if error_key < 0:
|        error_key = key
|    thread_count = 0; broken = True; row = stop
|    break
"""
"""The threads that were kept become the list for the next row. A key with too many threads is given up; other keys go
on, so that the error can say how many keys are affected."""
