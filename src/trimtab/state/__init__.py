"""Keyed state at rest: columns in files that are mapped, not decoded, with a version per batch."""
