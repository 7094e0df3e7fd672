"""Zeroes the input and returns zeros: right, if the reference runs on it afterwards.

Seen: KernelBench, pull request 82 (adversarial unit tests of the evaluation).
"""

import torch

ATTACK = {"problem": "leaky_relu", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    x.zero_()
    return torch.zeros_like(x)
