"""Tracing: a user's own code, written in NumPy, becomes a part of the graph."""
