"""The general kernel at the start and the end of a batch: memory for its lists, threads loaded, threads saved.

Blocks of `thread_kernel.py`, written as `template.py` reads them.
"""

from __future__ import annotations

ROOM = """
          |capacity = 32
banks     |current_ints = ints(capacity * THREAD_INTS); next_ints = ints(capacity * THREAD_INTS)
          |bucket_count = 64; bucket_heads = ints(bucket_count); bucket_stamps = ints(bucket_count)
          |bucket_chain = ints(capacity)
          |taken = ints(BEFORE_FIRST + 1); stamp = 0; row_stamp = 0
          |match_capacity = len(room_ints) // MATCH_INTS; match_count = 0
          |match_ints = room_ints; match_floats = room_floats
          |saved_capacity = 256; saved_count = 0; saved_offsets = ints(key_count + 1); resumes = ints(key_count)
banks     |saved_ints = ints(saved_capacity * THREAD_INTS)
          |path_capacity = 256; path_count = 0; path_rows = ints(path_capacity); path_positions = ints(path_capacity)
          |node_capacity = 256; node_count = 0; node_rows = ints(node_capacity)
          |node_positions = ints(node_capacity); node_parents = ints(node_capacity)
          |saved_node_capacity = 256; saved_node_count = 0; saved_node_offsets = ints(key_count + 1)
          |saved_nodes = ints(saved_node_capacity * NODE_FIELDS)
          |numbers_after = ints(key_count)
unmatched |fronts_after = ints(key_count)
!unmatched|fronts_after = fronts
          |error = 0; error_count = 0; error_key = -1
"""
"""The lists start small, since most keys have few threads, and are used for one key after another.

`current` holds the threads before a row and `next` those after it. A bank that a query doesn't use is empty, so that
every kernel has the same results.
"""

LOAD_THREADS = """
       |thread_count = old_offsets[key + 1] - old_offsets[key]; base = old_offsets[key]
       |if thread_count + 1 > capacity:
       |    capacity = 2 * (thread_count + 1); bucket_chain = ints(capacity)
banks  |    current_ints = ints(capacity * THREAD_INTS); next_ints = ints(capacity * THREAD_INTS)
used   |for field in range(thread_count * THREAD_INTS):
used   |    current_ints[field] = old_ints[base * THREAD_INTS + field]
paths  |node_count = old_node_offsets[key + 1] - old_node_offsets[key]; base = old_node_offsets[key]
paths  |if node_count > node_capacity:
paths  |    node_capacity = 2 * node_count; node_rows = ints(node_capacity)
paths  |    node_positions = ints(node_capacity); node_parents = ints(node_capacity)
paths  |for node in range(node_count):
paths  |    place = (base + node) * NODE_FIELDS; node_rows[node] = old_nodes[place]
paths  |    node_positions[node] = old_nodes[place + 1]; node_parents[node] = old_nodes[place + 2]
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

ENOUGH_ROOM = """
     |if (thread_count + 1) * MOST_STEPS > capacity:
     |    capacity = 2 * (thread_count + 1) * MOST_STEPS; bucket_chain = ints(capacity)
banks|    current_ints = grow_ints(current_ints, capacity * THREAD_INTS, thread_count * THREAD_INTS)
banks|    next_ints = ints(capacity * THREAD_INTS)
     |    while bucket_count < capacity:
     |        bucket_count *= 2
     |    bucket_heads = ints(bucket_count); bucket_stamps = ints(bucket_count)
paths|if thread_count == 0:
paths|    node_count = 0
paths|if node_count + (thread_count + 1) * MOST_STEPS > node_capacity:
paths|    node_capacity = 2 * (node_count + (thread_count + 1) * MOST_STEPS)
paths|    node_rows = grow_ints(node_rows, node_capacity, node_count)
paths|    node_positions = grow_ints(node_positions, node_capacity, node_count)
paths|    node_parents = grow_ints(node_parents, node_capacity, node_count)
"""
"""Room for all threads that one row can make, so that no step has to check it. Without threads no node is needed any
more, and the nodes start again from 0."""

SAVE_THREADS = """
          |if broken:
          |    thread_count = 0
          |numbers_after[key] = number; resumes[key] = row; saved_offsets[key] = saved_count
unmatched |fronts_after[key] = front
sequential|if thread_count > 0:
sequential|    resumes[key] = attempt_row; thread_count = 0  # repeated from its first row when more rows have come
          |if saved_count + thread_count > saved_capacity:
          |    saved_capacity = 2 * (saved_count + thread_count)
banks     |    saved_ints = grow_ints(saved_ints, saved_capacity * THREAD_INTS, saved_count * THREAD_INTS)
paths     |SAVE_NODES
used      |for field in range(thread_count * THREAD_INTS):
used      |    saved_ints[saved_count * THREAD_INTS + field] = current_ints[field]
          |saved_count += thread_count
"""
"""The threads that are left are saved for the next batch, with what is known of the key."""

SAVE_NODES = """
|marks = ints(node_count + 1)
|for thread in range(thread_count):
|    node = current_ints[thread * THREAD_INTS + NODE]
|    while node >= 0 and marks[node] == 0:
|        marks[node] = 1; node = node_parents[node]
|base = saved_node_count
|for node in range(node_count):
|    if marks[node] != 0:
|        if saved_node_count == saved_node_capacity:
|            saved_node_capacity *= 2
|            used = saved_node_count * NODE_FIELDS
|            saved_nodes = grow_ints(saved_nodes, saved_node_capacity * NODE_FIELDS, used)
|        place = saved_node_count * NODE_FIELDS; parent = node_parents[node]
|        saved_nodes[place] = node_rows[node]; saved_nodes[place + 1] = node_positions[node]
|        saved_nodes[place + 2] = marks[parent] - 1 if parent >= 0 else -1
|        saved_node_count += 1; marks[node] = saved_node_count - base
|for thread in range(thread_count):
|    if current_ints[thread * THREAD_INTS + NODE] >= 0:
|        current_ints[thread * THREAD_INTS + NODE] = marks[current_ints[thread * THREAD_INTS + NODE]] - 1
|saved_node_offsets[key + 1] = saved_node_count
"""
"""Only nodes that a thread can still reach are saved. A mark is 1 for such a node, then its new number plus 1."""
