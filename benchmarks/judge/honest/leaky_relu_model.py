"""The same as a module, with the output from `new_empty`."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = x.new_empty(x.shape)
        _leaky[(triton.cdiv(x.numel(), 2048),)](x, out, x.numel(), BLOCK=2048, num_warps=8)
        return out
