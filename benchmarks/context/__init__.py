"""What a context is good for: its first example, whether that runs, its techniques, its size."""
