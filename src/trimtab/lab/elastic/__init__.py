"""Live experiments on engines and executors that differ, slow down, come and go."""
