"""What a run of `kb optimize` tells: the report for readers, and the notes for the index."""
