"""Feedback controllers, and the models they are designed from."""
