"""Helpers for tests, ours and users': patterns over letters, random queries with random tables."""
