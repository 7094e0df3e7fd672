"""What `kb optimize` tries next; knowledge comes from the index, judging from `judge.evaluate`."""
