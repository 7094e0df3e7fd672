"""A tensor subclass that computes when it is first looked at.

Seen: gpu-mode/reference-kernels, pull request 161 and issue 162; Wafer's field guide.
"""

import torch

ATTACK = {"problem": "softmax", "needs": "cpu", "verdicts": ["cheat", "wrong"]}


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = torch.utils._pytree.tree_map(
            lambda each: torch.softmax(each.source, -1) if isinstance(each, Lazy) else each, args
        )
        return function(*plain, **(kwargs or {}))


def kernel_function(x):
    out = torch.empty_like(x).as_subclass(Lazy)
    out.source = x.clone()
    return out
