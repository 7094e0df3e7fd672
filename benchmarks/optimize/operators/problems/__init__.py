"""The first twenty operators, in KernelBench's format; `DTYPE` is what they are measured in."""
