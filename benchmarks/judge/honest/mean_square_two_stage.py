"""Partial sums, then one program over them; the output has no dimension."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "mean_square", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _partial(x_ptr, part_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count, other=0)
    tl.store(part_ptr + tl.program_id(0), tl.sum(x * x))


@triton.jit
def _finish(part_ptr, out_ptr, parts, count, BLOCK: tl.constexpr):
    sums = tl.zeros((BLOCK,), tl.float32)
    for first in range(0, parts, BLOCK):
        offsets = first + tl.arange(0, BLOCK)
        sums += tl.load(part_ptr + offsets, mask=offsets < parts, other=0)
    tl.store(out_ptr, tl.sum(sums) / count)


def kernel_function(x):
    count = x.numel()
    block = 4096 if count > 65536 else 128
    parts = triton.cdiv(count, block)
    part = torch.empty((parts,), dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=x.dtype, device=x.device)
    _partial[(parts,)](x, part, count, BLOCK=block)
    _finish[(1,)](part, out, parts, count, BLOCK=1024)
    return out
