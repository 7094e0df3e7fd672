"""The embedding model's training set, training and evaluation."""
