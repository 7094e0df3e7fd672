"""Half of the work on a second stream, which the first waits for before it returns."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


_side: list = []


def kernel_function(x):
    if not _side:
        _side.append(torch.cuda.Stream())
    current = torch.cuda.current_stream()
    flat = x.view(-1)
    out = torch.empty_like(flat)
    half = flat.numel() // 2
    _side[0].wait_stream(current)
    with torch.cuda.stream(_side[0]):
        _leaky[(triton.cdiv(half, 1024),)](flat, out, half, BLOCK=1024)
    rest = flat.numel() - half
    _leaky[(triton.cdiv(rest, 1024),)](flat[half:], out[half:], rest, BLOCK=1024)
    current.wait_stream(_side[0])
    return out.view_as(x)
