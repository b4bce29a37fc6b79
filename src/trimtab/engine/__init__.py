"""What queries mean over columns, without SQL and without Spark: one contract (`operator`), four kinds of operators."""
