"""From a pattern to a program with registers."""
