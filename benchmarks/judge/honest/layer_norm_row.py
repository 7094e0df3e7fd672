"""One row per program; weights and epsilon are arguments."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "layer_norm", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _layer_norm(x_ptr, w_ptr, b_ptr, out_ptr, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0)
    centred = tl.where(inside, x - tl.sum(x) / columns, 0)
    scale = tl.rsqrt(tl.sum(centred * centred) / columns + eps)
    w = tl.load(w_ptr + offsets, mask=inside)
    b = tl.load(b_ptr + offsets, mask=inside)
    tl.store(out_ptr + row * columns + offsets, centred * scale * w + b, mask=inside)


def kernel_function(x, weight, bias, eps):
    rows, columns = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(columns)
    _layer_norm[(rows,)](x, weight, bias, out, columns, eps, BLOCK=block)
    return out
