"""The same with a wrapper subclass that has no storage at all.

Seen: gpu-mode/reference-kernels, issue 162.
"""

import torch

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, source):
        return torch.Tensor._make_wrapper_subclass(
            cls, source.shape, dtype=source.dtype, device=source.device
        )

    def __init__(self, source):
        self.source = source

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def plain(each):
            return torch.softmax(each.source, -1) if isinstance(each, Lazy) else each

        args, kwargs = torch.utils._pytree.tree_map(plain, (args, kwargs or {}))
        return function(*args, **kwargs)


def kernel_function(x):
    return Lazy(x)
