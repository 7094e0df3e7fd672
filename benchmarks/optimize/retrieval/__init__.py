"""What retrieval is worth to the proposers that need no model."""
