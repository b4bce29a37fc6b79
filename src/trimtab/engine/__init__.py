"""The engine: what a query means over columns, without SQL and without Spark."""
