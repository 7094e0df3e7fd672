"""One value, expanded to the whole shape with strides of zero.

Seen: own.
"""

import torch

ATTACK = {"problem": "matvec_rand", "needs": "cpu", "verdicts": ["cheat", "wrong", "inconclusive"]}


def kernel_function(a, v):
    return torch.full((1, 1), a.shape[1] / 4, dtype=a.dtype, device=a.device).expand(a.shape[0], 1)
