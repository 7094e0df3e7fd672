"""What the ingest of the curated list takes: time, memory, and what an interruption costs."""
