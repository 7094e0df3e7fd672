"""One token per program; the table is an argument."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "embedding", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _gather(index_ptr, table_ptr, out_ptr, width, BLOCK: tl.constexpr):
    token = tl.program_id(0).to(tl.int64)
    word = tl.load(index_ptr + token)
    lane = tl.arange(0, BLOCK)
    value = tl.load(table_ptr + word * width + lane, mask=lane < width)
    tl.store(out_ptr + token * width + lane, value, mask=lane < width)


def kernel_function(indices, table):
    width = table.shape[1]
    out = torch.empty((indices.numel(), width), dtype=table.dtype, device=table.device)
    _gather[(indices.numel(),)](indices, table, out, width, BLOCK=triton.next_power_of_2(width))
    return out
