"""Writes into padded rows and returns a strided view of them."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "swiglu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _swiglu(x_ptr, out_ptr, rows, width, pitch, R: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * R + tl.arange(0, R)[:, None]
    column = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (row < rows) & (column < width)
    gate = tl.load(x_ptr + row * 2 * width + column, mask=inside, other=0).to(tl.float32)
    value = tl.load(x_ptr + row * 2 * width + width + column, mask=inside, other=0).to(tl.float32)
    tl.store(out_ptr + row * pitch + column, gate / (1 + tl.exp(-gate)) * value, mask=inside)


def kernel_function(x):
    rows, width = x.shape[0], x.shape[1] // 2
    pitch = width + 16
    padded = torch.empty((rows, pitch), dtype=x.dtype, device=x.device)
    _swiglu[(triton.cdiv(rows, 4), triton.cdiv(width, 512))](
        x, padded, rows, width, pitch, R=4, BLOCK=512
    )
    return padded[:, :width]
