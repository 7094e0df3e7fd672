"""Operators that the optimizer was not built on: what it makes of them without a model."""
