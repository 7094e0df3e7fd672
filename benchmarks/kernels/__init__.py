"""Measure the corpus's kernels on a GPU and write the results into their entries."""
