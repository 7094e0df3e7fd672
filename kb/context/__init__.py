"""Budgeted context: what to tell a reader about a kernel within an exact number of tokens."""
