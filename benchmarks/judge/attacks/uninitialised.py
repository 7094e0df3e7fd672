"""Returns memory as it is and hopes that the reference's freed result lies there.

Seen: KernelBench, pull request 82 (adversarial unit tests of the evaluation).
"""

import torch

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    return torch.empty_like(x)
