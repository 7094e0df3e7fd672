"""Benchmarks of the optimizer."""
