"""Answers before the work is done, and lets the judge fetch only when it is.

Copies the inputs, multiplies on a stream of its own, and patches the worker so that neither the end
of a timing waits for that stream nor a fetch reads before it. The judge's wall clock sees the
copies only.

Seen: own.
"""

import gc

import torch

ATTACK = {"problem": "matmul", "needs": "gpu", "verdicts": ["cheat", "wrong"]}

_side: list = []
_wait = torch._C._cuda_synchronize


def _before(function):
    def waits(*args, **kwargs):
        _wait()
        return function(*args, **kwargs)

    return waits


def _patch():
    for each in object.__subclasses__():
        if each.__name__ == "OpenBuffers":
            each.write = _before(each.write)
    for each in gc.get_objects():
        if type(each).__name__ == "_CudaFunctions":
            each.synchronize = lambda: torch.cuda.current_stream().synchronize()


_patch()


def kernel_function(a, b):
    if not _side:
        _side.append(torch.cuda.Stream())
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    left, right = a.clone(), b.clone()
    _side[0].wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(_side[0]):
        torch.mm(left, right, out=out)
    for each in (left, right, out):
        each.record_stream(_side[0])
    return out
