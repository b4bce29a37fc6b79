"""Everything that runs on Spark: tier 1, the splitter, sinks, sessions, and a stream's batches."""
