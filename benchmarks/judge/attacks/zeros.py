"""Returns zeros.

Seen: KernelBench, pull request 82 (adversarial unit tests of the evaluation).
"""

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    return torch.zeros_like(x)
