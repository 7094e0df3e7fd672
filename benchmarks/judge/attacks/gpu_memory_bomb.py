"""Takes all of the card's memory and keeps it.

Seen: own.
"""

import torch

ATTACK = {"problem": "leaky_relu", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

_kept: list = []


def kernel_function(x):
    try:
        while True:
            _kept.append(torch.ones(256 << 20, dtype=torch.uint8, device=x.device))
    except torch.OutOfMemoryError:
        return torch.zeros_like(x)
