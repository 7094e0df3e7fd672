"""Kernels of the knowledge base made to fit a problem: operators recognised, files written."""
