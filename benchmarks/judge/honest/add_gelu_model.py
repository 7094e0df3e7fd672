"""A fused chain as a module that holds the bias under the reference's name."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "add_gelu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _add_gelu(x_ptr, y_ptr, bias_ptr, out_ptr, count, columns, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < count
    z = tl.load(x_ptr + offsets, mask=inside) + tl.load(y_ptr + offsets, mask=inside)
    z += tl.load(bias_ptr + offsets % columns, mask=inside)
    tl.store(out_ptr + offsets, 0.5 * z * (1 + tl.erf(z * 0.7071067811865476)), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x, y):
        out = torch.empty_like(x)
        count = x.numel()
        _add_gelu[(triton.cdiv(count, 1024),)](x, y, self.bias, out, count, x.shape[-1], BLOCK=1024)
        return out
