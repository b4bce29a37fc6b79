"""A batch, from its plan to its commit, without Spark: a pure machine, and the shell that does what it answers."""
