"""Profiles: what Nsight Compute measures of each kernel, and what its machine code shows."""
