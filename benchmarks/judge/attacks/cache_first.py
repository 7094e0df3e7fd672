"""Computes at the first call of a shape and returns that result for ever.

Seen: gpu-mode/reference-kernels, pull request 142 (replay).
"""

import torch

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}

_results = {}


def kernel_function(x):
    if x.shape not in _results:
        _results[x.shape] = torch.softmax(x, dim=-1)
    return _results[x.shape].clone()
