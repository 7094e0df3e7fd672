"""Times three block sizes with CUDA events at the first call of a shape, then keeps the best."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < count)
    tl.store(out_ptr + offsets, tl.where(x >= 0, x, 0.1 * x), mask=offsets < count)


def _milliseconds(x, out, block):
    start = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    grid = (triton.cdiv(x.numel(), block),)
    _leaky[grid](x, out, x.numel(), BLOCK=block)
    start.record()
    for _ in range(5):
        _leaky[grid](x, out, x.numel(), BLOCK=block)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


_best: dict = {}


def kernel_function(x):
    out = torch.empty_like(x)
    if x.shape not in _best:
        _best[x.shape] = min((512, 1024, 4096), key=lambda block: _milliseconds(x, out, block))
    block = _best[x.shape]
    _leaky[(triton.cdiv(x.numel(), block),)](x, out, x.numel(), BLOCK=block)
    return out
