"""What retrieval and two rules of the search are worth to the proposers that need no model."""
