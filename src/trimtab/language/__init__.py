"""SQL text to checked queries: sqlglot reads the SQL, row patterns and meaning are ours."""
