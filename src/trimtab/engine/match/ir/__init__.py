"""A pattern query as plain data: what the language hands to the engine."""
