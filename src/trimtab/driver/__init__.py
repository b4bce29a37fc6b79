"""A stream's batches from orders to commit, without Spark."""
