"""Plain, correct Triton kernels for our problem files: where `kb optimize` may start from."""
