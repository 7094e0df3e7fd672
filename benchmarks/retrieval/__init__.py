"""KernelRetrieve: how well questions about GPU kernels find what answers them.

`python -m benchmarks.retrieval` runs all of it; docs/retrieval.md says what is measured and how.
"""
