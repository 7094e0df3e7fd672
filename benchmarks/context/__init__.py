"""The quality of contexts: the first example, whether it runs, the techniques, the size."""
