"""Problem files in KernelBench's format; each stands by itself and is read, not imported."""
