"""Running kernels over batches: rows, threads, and the state between two batches."""
