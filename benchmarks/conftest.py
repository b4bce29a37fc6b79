"""Doctests of the benchmarks: without bytewax, which not every Python has, its file can't be read."""

from __future__ import annotations

import importlib.util

collect_ignore = [] if importlib.util.find_spec("bytewax") else ["bytewax_peer.py"]
