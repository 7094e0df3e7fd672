"""Twenty operators in KernelBench's format; `DTYPE` is the precision they are measured in."""
