"""Trimtab's peers on a stream of files: Spark's floor, Spark's own state, Flink. They need the extra `spark`."""
