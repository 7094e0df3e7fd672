"""Figures of the index: ingest, queries, filters, readers beside a writer. See `__main__`."""
