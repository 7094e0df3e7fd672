"""Right at one width, and says so for others."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["correct", "specialised"]}

WIDTHS = (64, 4096)


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


def kernel_function(x):
    if x.shape[-1] not in WIDTHS or x.shape[0] % 8:
        raise ValueError(f"only rows of {WIDTHS} values, and eight rows at a time")
    out = torch.empty_like(x)
    _leaky[(x.numel() // 512,)](x, out, x.numel(), BLOCK=512)
    return out
