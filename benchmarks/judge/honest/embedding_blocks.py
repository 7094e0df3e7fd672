"""Several tokens per program, as a module."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "embedding", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _gather(index_ptr, table_ptr, out_ptr, tokens, width, T: tl.constexpr, W: tl.constexpr):
    token = tl.program_id(0) * T + tl.arange(0, T)
    word = tl.load(index_ptr + token, mask=token < tokens, other=0)
    lane = tl.arange(0, W)
    inside = (token < tokens)[:, None] & (lane < width)[None, :]
    value = tl.load(table_ptr + word[:, None] * width + lane[None, :], mask=inside)
    tl.store(out_ptr + token.to(tl.int64)[:, None] * width + lane[None, :], value, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.table = torch.nn.Parameter(torch.randn(words, width))

    def forward(self, indices):
        tokens, width = indices.numel(), self.table.shape[1]
        out = self.table.new_empty((tokens, width))
        grid = (triton.cdiv(tokens, 4),)
        block = triton.next_power_of_2(width)
        _gather[grid](indices, self.table, out, tokens, width, T=4, W=block)
        return out
