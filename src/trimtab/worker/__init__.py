"""One engine in one batch: what it is told, what it does with its rows, what it reports."""
