"""Partial sums by a kernel, the last small sum by the library."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "mean_square", "needs": "cpu", "verdicts": ["correct", "library"]}


@triton.jit
def _partial(x_ptr, part_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count, other=0)
    tl.store(part_ptr + tl.program_id(0), tl.sum(x * x))


def kernel_function(x):
    count = x.numel()
    block = 4096 if count > 65536 else 128
    parts = triton.cdiv(count, block)
    part = torch.empty((parts,), dtype=torch.float32, device=x.device)
    _partial[(parts,)](x, part, count, BLOCK=block)
    return part.sum() / count
