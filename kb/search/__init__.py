"""Search: what a query says, how chunks answer it, and when nothing does."""
