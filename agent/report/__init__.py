"""Reports of a run of `kb optimize`, and notes on it for the index."""
