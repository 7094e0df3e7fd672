"""The index on disk: immutable generations behind one pointer file."""
