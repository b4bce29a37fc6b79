"""The demonstration: a skewed stream on a local Spark, with hashed and with balanced keys."""
