"""Returns NaN, which some comparisons take as a wildcard.

Seen: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    return torch.full_like(x, float("nan"))
