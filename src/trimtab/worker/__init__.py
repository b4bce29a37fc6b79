"""One engine in one batch: its orders, what it does with its rows, and its report."""
