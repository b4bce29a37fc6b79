"""Expressions that look at one row: the steps before and after an operator, by Spark or by DuckDB, with one answer."""
