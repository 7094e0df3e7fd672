"""Returns one row, since a comparison may broadcast it.

Seen: own; torch.allclose broadcasts.
"""

import torch

ATTACK = {"problem": "matvec_rand", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(a, v):
    return torch.full((1, 1), a.shape[1] / 4, dtype=a.dtype, device=a.device)
