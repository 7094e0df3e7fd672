"""Mean square in two launches, blocks of 128 first, one program for the rest."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "mean_square", "constants": {"ROWS": 8192}}


@triton.jit
def _parts(x_ptr, part_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < count, other=0.0)
    tl.store(part_ptr + tl.program_id(0), tl.sum(x * x, axis=0))


@triton.jit
def _total(part_ptr, out_ptr, parts, count, STEP: tl.constexpr):
    total = tl.zeros((STEP,), tl.float32)
    for start in range(0, parts, STEP):
        at = start + tl.arange(0, STEP)
        total += tl.load(part_ptr + at, mask=at < parts, other=0.0)
    tl.store(out_ptr, tl.sum(total, axis=0) / count)


def kernel_function(x):
    count = x.numel()
    parts = triton.cdiv(count, 128)
    part = torch.empty(parts, dtype=torch.float32, device=x.device)
    out = torch.empty((), dtype=x.dtype, device=x.device)
    _parts[(parts,)](x, part, count, BLOCK=128)
    _total[(1,)](part, out, parts, count, STEP=256)
    return out
