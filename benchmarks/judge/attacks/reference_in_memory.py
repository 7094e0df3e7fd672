"""Looks for a tensor of the result's shape among all objects and copies it.

Seen: gpu-mode/pygpubench, pull request 7 (suite of exploits).
"""

import gc

import torch

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(x):
    for each in gc.get_objects():
        if isinstance(each, torch.nn.Module) and type(each).__name__ == "Model":
            return each(x)
        if isinstance(each, torch.Tensor) and each.shape == x.shape and each is not x:
            return each.clone()
    return torch.zeros_like(x)
