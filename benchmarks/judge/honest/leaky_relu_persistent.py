"""Few programs that stride over the tensor; as many as the device has SMs."""

import torch
import triton
import triton.language as tl

HONEST = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _leaky(x_ptr, out_ptr, count, BLOCK: tl.constexpr):
    step = tl.num_programs(0) * BLOCK
    for start in range(tl.program_id(0) * BLOCK, count, step):
        offsets = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < count, eviction_policy="evict_first")
        tl.store(out_ptr + offsets, tl.maximum(x, 0.1 * x), mask=offsets < count)


def _programs(device):
    if device.type != "cuda":
        return 4
    return 4 * torch.cuda.get_device_properties(device).multi_processor_count


def kernel_function(x):
    out = torch.empty_like(x)
    _leaky[(_programs(x.device),)](x, out, x.numel(), BLOCK=1024)
    return out
