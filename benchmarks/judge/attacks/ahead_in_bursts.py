"""As works_during_hold, but the first call of a burst is honest: a test of one launch sees nothing.

Seen: own.
"""

import time

import torch

ATTACK = {"problem": "matmul", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

_side: list = []
_state = {"last": 0.0, "count": 0}


def kernel_function(a, b):
    if not _side:
        _side.append(torch.cuda.Stream())
    now = time.monotonic()
    _state["count"] = 0 if now - _state["last"] > 0.003 else _state["count"] + 1
    _state["last"] = now
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    if _state["count"] == 0 or torch.cuda.is_current_stream_capturing():
        return torch.mm(a, b, out=out)
    with torch.cuda.stream(_side[0]):
        torch.mm(a, b, out=out)
    torch.cuda.current_stream().wait_stream(_side[0])
    return out
