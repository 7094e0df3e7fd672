"""What writing and searching an index costs at several sizes."""
