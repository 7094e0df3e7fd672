"""KernelRetrieve: how well questions about GPU kernels find their answers.

`python -m benchmarks.retrieval` runs all of it; docs/retrieval.md says what is measured and how.
"""
