"""A kernel judge: problems and kernels as files, a sandbox, correctness, timing and profiles.

It knows nothing of how kernels are proposed: `agent` builds on it, and it runs by itself.
"""
