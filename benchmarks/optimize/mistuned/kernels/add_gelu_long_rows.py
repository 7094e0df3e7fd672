"""GELU of a sum, 16384 elements in one warp: everything spills."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "add_gelu", "constants": {"ROWS": 8192}}


SIZE = 16384


@triton.jit
def _add_gelu(x_ptr, y_ptr, bias_ptr, out_ptr, count, columns, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    total = tl.load(x_ptr + at, mask=inside) + tl.load(y_ptr + at, mask=inside)
    total += tl.load(bias_ptr + at % columns, mask=inside)
    gelu = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
    tl.store(out_ptr + at, gelu, mask=inside)


def kernel_function(x, y, bias):
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), SIZE),)
    _add_gelu[grid](x, y, bias, out, x.numel(), x.shape[-1], BLOCK=SIZE, num_warps=1)
    return out
