"""Experiments on Spark: jobs over prepared feeds, one run per scheme, shared by the figures that use it.

Importing these modules imports neither Spark nor Numba: both are loaded by the first run.
"""
