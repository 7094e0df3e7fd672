"""Kernels that compute a whole graph for one lane a thread: small dimensions are unrolled."""
