"""Where engines run: executors come and go, and each engine stays on its own."""
