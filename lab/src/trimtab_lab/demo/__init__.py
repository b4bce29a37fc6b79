"""The demonstration: a skewed stream, hashed and balanced, on a local Spark."""
