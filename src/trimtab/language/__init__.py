"""SQL text to a compiled query, by the passes of `compile.PASSES`: sqlglot reads the SQL, what it means is ours."""
