"""The embedding model's training set, its training, and what is measured of it."""
