"""Allocates until nothing is left.

Seen: own.
"""

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}

_kept: list = []


def kernel_function(x):
    while True:
        _kept.append(torch.ones(64 << 20, dtype=torch.uint8))
