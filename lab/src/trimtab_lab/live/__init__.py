"""Experiments on Spark: jobs over prepared feeds, one run a scheme, shared by the figures that look at it.

Importing these modules imports neither Spark nor Numba: both are loaded by the first run.
"""
