"""Precision and recall of the tags that patterns give to production code."""
