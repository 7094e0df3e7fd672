"""Rows of a table, 256 a program in one warp."""

import triton
import triton.language as tl

MISTUNED = {"problem": "embedding", "constants": {"TOKENS": 262144}}


TOKENS_PER_PROGRAM = 256


@triton.jit
def _embedding(index_ptr, table_ptr, out_ptr, tokens, width, T: tl.constexpr, W: tl.constexpr):
    token = tl.program_id(0) * T + tl.arange(0, T)
    lane = tl.arange(0, W)
    index = tl.load(index_ptr + token, mask=token < tokens, other=0)
    inside = (token < tokens)[:, None] & (lane < width)[None, :]
    rows = tl.load(table_ptr + index[:, None] * width + lane[None, :], mask=inside)
    tl.store(out_ptr + token[:, None] * width + lane[None, :], rows, mask=inside)


def kernel_function(indices, table):
    tokens, width = indices.numel(), table.shape[1]
    out = table.new_empty((tokens, width))
    _embedding[(triton.cdiv(tokens, TOKENS_PER_PROGRAM),)](
        indices, table, out, tokens, width,
        T=TOKENS_PER_PROGRAM, W=triton.next_power_of_2(width), num_warps=1,
    )  # fmt: skip
    return out
