"""The general kernel at the start and the end of a batch: memory for its lists, threads loaded, threads saved.

Blocks of `thread_kernel.py`, written as `template.py` reads them.
"""

from __future__ import annotations

ROOM = """
          |capacity = THREADS_AT_FIRST; node_capacity = NODES_AT_FIRST; path_capacity = NODES_AT_FIRST
          |saved_capacity = SAVED_AT_FIRST; saved_node_capacity = SAVED_AT_FIRST
banks     |thread_ints = ints(2 * capacity * THREAD_INTS)
          |bucket_count = 64; bucket_heads = ints(bucket_count); bucket_stamps = ints(bucket_count)
          |bucket_chain = ints(capacity)
          |taken = ints(BEFORE_FIRST + 1); stamp = 0; row_stamp = 0
          |match_capacity = len(room_ints) // MATCH_INTS; match_count = 0
          |match_ints = room_ints; match_floats = room_floats
          |saved_count = 0; saved_offsets = ints(key_count + 1); resumes = ints(key_count)
banks     |saved_ints = ints(saved_capacity * THREAD_INTS)
          |path_count = 0; path_rows = ints(path_capacity); path_positions = ints(path_capacity)
          |node_count = 0; node_rows = ints(node_capacity)
          |node_positions = ints(node_capacity); node_parents = ints(node_capacity)
          |saved_node_count = 0; saved_node_offsets = ints(key_count + 1)
          |saved_nodes = ints(saved_node_capacity * NODE_FIELDS)
          |numbers_after = ints(key_count)
unmatched |fronts_after = ints(key_count)
!unmatched|fronts_after = fronts
          |error = 0; error_count = 0; error_key = -1
          |threads_wanted = 0; nodes_wanted = 0; matches_wanted = 0; paths_wanted = 0; saved_wanted = 0
          |saved_nodes_wanted = 0
"""
"""The lists start small, since most keys have few threads, and are used for one key after another.

A half of each bank holds the threads before a row, the other half those after it. A bank that a query doesn't use is
empty, so that every kernel has the same results.
"""

MORE_ROOM = """
            |if threads_wanted > capacity:
            |    capacity = 2 * threads_wanted; bucket_chain = ints(capacity)
used        |    thread_ints = ints(2 * capacity * THREAD_INTS)
            |    while bucket_count < capacity:
            |        bucket_count *= 2
            |    bucket_heads = ints(bucket_count); bucket_stamps = ints(bucket_count)
            |if matches_wanted > match_capacity:
            |    match_capacity = 2 * matches_wanted
            |    match_ints = grow_ints(match_ints, match_capacity * MATCH_INTS, match_count * MATCH_INTS)
match_floats|    match_floats = grow_floats(match_floats, match_capacity * MATCH_FLOATS, match_count * MATCH_FLOATS)
            |if saved_wanted > saved_capacity:
            |    saved_capacity = 2 * saved_wanted
used        |    saved_ints = grow_ints(saved_ints, saved_capacity * THREAD_INTS, saved_count * THREAD_INTS)
paths       |if nodes_wanted > node_capacity:
paths       |    node_capacity = 2 * nodes_wanted; node_rows = ints(node_capacity)
paths       |    node_positions = ints(node_capacity); node_parents = ints(node_capacity)
paths       |if paths_wanted > path_capacity:
paths       |    path_capacity = 2 * paths_wanted
paths       |    path_rows = grow_ints(path_rows, path_capacity, path_count)
paths       |    path_positions = grow_ints(path_positions, path_capacity, path_count)
paths       |if saved_nodes_wanted > saved_node_capacity:
paths       |    saved_node_capacity = 2 * saved_nodes_wanted; used = saved_node_count * NODE_FIELDS
paths       |    saved_nodes = grow_ints(saved_nodes, saved_node_capacity * NODE_FIELDS, used)
"""
"""Larger lists, for a key that begins again because they were full. That is decided outside of the loops over keys and
rows: Numba counts the references to an array wherever it may be another one than in the round before, and that took
three quarters of the kernel's time."""

LOAD_THREADS = """
       |thread_count = old_offsets[key + 1] - old_offsets[key]; base = old_offsets[key]
       |threads_wanted = thread_count + 1; is_full = threads_wanted > capacity
paths  |node_count = old_node_offsets[key + 1] - old_node_offsets[key]
paths  |nodes_wanted = node_count; is_full = is_full or nodes_wanted > node_capacity
       |list_at = 0; next_at = capacity; matches_before = match_count; paths_before = path_count
       |if not is_full:
used   |    for field in range(thread_count * THREAD_INTS):
used   |        thread_ints[field] = old_ints[base * THREAD_INTS + field]
paths  |    base = old_node_offsets[key]
paths  |    for node in range(node_count):
paths  |        place = (base + node) * NODE_FIELDS; node_rows[node] = old_nodes[place]
paths  |        node_positions[node] = old_nodes[place + 1]; node_parents[node] = old_nodes[place + 2]
"""
"""The key's threads, and the nodes of their paths, are copied into the working lists."""

BEGIN_KEY = """
         |tail = tails[key]; row = firsts[key]; end = ends[key]; stop = stops[key]; number = numbers[key]
         |origin = firsts[key] if begun[key] == 0 else -1
         |broken = False; attempt_row = row
timed    |# Rows that wait until NEXT can read ahead are still to be processed.
timed    |clock = min(watermark, times[stop]) if stop < end else watermark
unmatched|front = fronts[key]
"""
"""The key's rows and numbers. `origin` is the partition's first row, for `^`; -1 if it was in an earlier batch."""

IS_ROOM_ENOUGH = """
paths     |if thread_count == 0:
paths     |    node_count = 0
          |threads_wanted = (thread_count + 1) * MOST_STEPS; matches_wanted = match_count + threads_wanted
unmatched |matches_wanted += stop - front
          |is_full = threads_wanted > capacity or matches_wanted > match_capacity
paths     |nodes_wanted = node_count + threads_wanted; is_full = is_full or nodes_wanted > node_capacity
          |if is_full:
          |    break
"""
"""Whether there is room for all threads that one row can make, for their matches, and for the rows without a match, so
that no step has to check it. Without threads no node is needed any more, and the nodes start again from 0."""

ROOM_AT_THE_END = """
|matches_wanted = match_count + stop - front; is_full = matches_wanted > match_capacity
"""
"""Whether there is room for the rows that are in no match, where no row was processed before."""

ROOM_TO_SAVE = """
     |saved_wanted = saved_count + thread_count; is_full = is_full or saved_wanted > saved_capacity
paths|saved_nodes_wanted = saved_node_count + node_count
paths|is_full = is_full or saved_nodes_wanted > saved_node_capacity
"""
"""Whether there is room for the threads that are left."""

BEGIN_AGAIN = """
|match_count = matches_before; path_count = paths_before
"""
"""A list was too small: what the key has reported is forgotten."""

SAVE_THREADS = """
          |numbers_after[key] = number; resumes[key] = row; saved_offsets[key] = saved_count
unmatched |fronts_after[key] = front
sequential|if thread_count > 0:
sequential|    resumes[key] = attempt_row; thread_count = 0  # repeated from its first row when more rows have come
paths     |SAVE_NODES
used      |for field in range(thread_count * THREAD_INTS):
used      |    saved_ints[saved_count * THREAD_INTS + field] = thread_ints[list_at * THREAD_INTS + field]
          |saved_count += thread_count
          |key += 1
"""
"""The threads that are left are saved for the next batch, with what is known of the key."""

SAVE_NODES = """
|marks = ints(node_count + 1)
|for thread in range(thread_count):
|    node = thread_ints[(list_at + thread) * THREAD_INTS + NODE]
|    while node >= 0 and marks[node] == 0:
|        marks[node] = 1; node = node_parents[node]
|base = saved_node_count
|for node in range(node_count):
|    if marks[node] != 0:
|        place = saved_node_count * NODE_FIELDS; parent = node_parents[node]
|        saved_nodes[place] = node_rows[node]; saved_nodes[place + 1] = node_positions[node]
|        saved_nodes[place + 2] = marks[parent] - 1 if parent >= 0 else -1
|        saved_node_count += 1; marks[node] = saved_node_count - base
|for thread in range(thread_count):
|    place = (list_at + thread) * THREAD_INTS + NODE
|    if thread_ints[place] >= 0:
|        thread_ints[place] = marks[thread_ints[place]] - 1
|saved_node_offsets[key + 1] = saved_node_count
"""
"""Only nodes that a thread can still reach are saved. A mark is 1 for such a node, then its new number plus 1."""
