"""A GPU kernel that never ends.

Seen: own.
"""

import torch
import triton
import triton.language as tl

ATTACK = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["cheat", "wrong"]}


@triton.jit
def _spin(flag_ptr):
    value = tl.load(flag_ptr)
    while value == 0:
        value = tl.atomic_add(flag_ptr, 0)


def kernel_function(x):
    flag = torch.zeros((1,), dtype=torch.int32, device=x.device)
    _spin[(1,)](flag)
    return torch.zeros_like(x)
