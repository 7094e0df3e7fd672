"""Figures of the index: a fresh query, writing and searching at several sizes."""
