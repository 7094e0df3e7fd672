"""Leaky ReLU, 32 elements a program: the launch of programs is the work."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "leaky_relu", "constants": {"ROWS": 16384}}


@triton.jit
def _leaky_relu(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count)
    tl.store(out_ptr + at, tl.where(x > 0, x, x * 0.1), mask=at < count)


def kernel_function(x):
    out = torch.empty_like(x)
    n = x.numel()
    _leaky_relu[(triton.cdiv(n, 32),)](x, out, n, BLOCK=32, num_warps=1)
    return out
