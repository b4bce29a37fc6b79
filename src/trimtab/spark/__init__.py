"""Everything that runs on Spark: the pipeline of a stream, tier 1, the splitter, sinks, sessions, merges of state."""
