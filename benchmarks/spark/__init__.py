"""trimtab and its peers on a stream of files: an empty job on Spark, Spark's own state, Flink. Needs extra `spark`."""
