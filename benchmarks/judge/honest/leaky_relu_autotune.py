"""Triton's autotuner, which launches and times the kernel itself at the first call."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["correct"]}


@triton.autotune(
    configs=[
        triton.Config({"BLOCK": block}, num_warps=warps)
        for block in (1024, 4096)
        for warps in (4, 8)
    ],
    key=["count"],
)
@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


def kernel_function(x):
    out = torch.empty_like(x)
    _leaky[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel())
    return out
