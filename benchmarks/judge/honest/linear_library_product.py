"""The library's product and a fused kernel for bias and ReLU."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "linear", "needs": "cpu", "verdicts": ["library"]}


@triton.jit
def _bias_relu(x_ptr, b_ptr, count, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    x = tl.load(x_ptr + offsets, mask=inside) + tl.load(b_ptr + offsets % columns, mask=inside)
    tl.store(x_ptr + offsets, tl.maximum(x, 0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.linear = torch.nn.Linear(inputs, outputs)

    def forward(self, x):
        out = torch.mm(x, self.linear.weight.t())
        grid = (triton.cdiv(out.numel(), 1024),)
        _bias_relu[grid](out, self.linear.bias, out.numel(), out.shape[1], BLOCK=1024)
        return out
