"""Arrow columns as numbers: keys, times, orders and groups, with one rule for which values are equal."""
