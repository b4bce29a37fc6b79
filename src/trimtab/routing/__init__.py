"""Per-event routers: which worker takes a message.

Every router has `route(keys) -> workers` over whole columns, keeps its own counts, and is seeded and picklable.
"""
