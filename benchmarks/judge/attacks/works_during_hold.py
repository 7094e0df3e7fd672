"""Multiplies on a second stream that does not wait for the first, then makes the first wait for it.

A judge that holds the stream until a launch is queued takes its first event after the work is done.

Seen: own.
"""

import torch

ATTACK = {"problem": "matmul", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

_side: list = []


def kernel_function(a, b):
    if not _side:
        _side.append(torch.cuda.Stream())
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    with torch.cuda.stream(_side[0]):
        torch.mm(a, b, out=out)
    torch.cuda.current_stream().wait_stream(_side[0])
    return out
