"""Launches on a second stream that nobody waits for.

Seen: KernelBench, pull request 82 (adversarial unit tests of the evaluation).
"""

import torch

ATTACK = {"problem": "matmul", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

_side: list = []


def kernel_function(a, b):
    if not _side:
        _side.append(torch.cuda.Stream())
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    _side[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side[0]):
        torch.mm(a, b, out=out)
    return out
