"""From a program to kernels: source code that runs as plain Python or as machine code."""
