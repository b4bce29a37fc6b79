"""Arrow columns as numbers: keys, times, orders and groups, with one answer to every question of equality."""
