"""SwiGLU in float32 of bfloat16 halves, rows split into blocks."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "swiglu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _swiglu(x_ptr, out_ptr, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < width
    gate = tl.load(x_ptr + row * 2 * width + column, mask=inside).to(tl.float32)
    value = tl.load(x_ptr + row * 2 * width + width + column, mask=inside).to(tl.float32)
    tl.store(out_ptr + row * width + column, gate * tl.sigmoid(gate) * value, mask=inside)


def kernel_function(x):
    width = x.shape[-1] // 2
    out = torch.empty((x.shape[0], width), dtype=x.dtype, device=x.device)
    _swiglu[(x.shape[0], triton.cdiv(width, 1024))](x, out, width, BLOCK=1024)
    return out
