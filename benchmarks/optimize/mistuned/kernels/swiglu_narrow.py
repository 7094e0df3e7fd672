"""SwiGLU in tiles of one row and 64 columns, most lanes of eight warps idle."""

import torch
import triton
import triton.language as tl

MISTUNED = {"problem": "swiglu", "constants": {"ROWS": 16384}}


@triton.jit
def _swiglu(x_ptr, out_ptr, rows, width, ROWS: tl.constexpr, COLS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.program_id(1) * COLS + tl.arange(0, COLS)[None, :]
    inside = (row < rows) & (column < width)
    base = x_ptr + row * (2 * width) + column
    gate = tl.load(base, mask=inside, other=0.0).to(tl.float32)
    value = tl.load(base + width, mask=inside, other=0.0).to(tl.float32)
    result = gate * tl.sigmoid(gate) * value
    tl.store(out_ptr + row * width + column, result, mask=inside)


def kernel_function(x):
    rows, width = x.shape[0], x.shape[1] // 2
    out = torch.empty((rows, width), dtype=x.dtype, device=x.device)
    grid = (rows, (width + 63) // 64)
    _swiglu[grid](x, out, rows, width, ROWS=1, COLS=64, num_warps=8)
    return out
