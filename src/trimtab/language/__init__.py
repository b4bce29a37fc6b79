"""SQL text to checked queries: sqlglot reads the SQL, the row patterns and their meaning are ours."""
