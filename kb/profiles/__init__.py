"""Metrics with their values: as a question states them, and as a profiler writes them."""
