"""Two kernels whose diagnosis is known: one far below every roof, one at the memory roof."""
