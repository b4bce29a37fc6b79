"""What looks at one row at a time: the same expressions as Spark SQL and as DuckDB's."""
