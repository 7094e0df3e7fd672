"""The optimizer on a folder of KernelBench problems."""
