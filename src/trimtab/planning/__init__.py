"""Placement: which node owns which unit.

Every planner is a function from a `Problem` to a `Plan`.
"""
