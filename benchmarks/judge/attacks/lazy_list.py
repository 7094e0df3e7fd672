"""Returns a list that multiplies when somebody looks into it, from copies of the inputs.

Seen: own; lazy outputs in gpu-mode/reference-kernels, issue 162.
"""

import torch

ATTACK = {"problem": "matmul_large", "needs": "gpu", "verdicts": ["cheat", "wrong"]}


class _Later(list):
    def __iter__(self):
        left, right, out = list.__getitem__(self, slice(None))
        torch.mm(left, right, out=out)
        return iter([out])


def kernel_function(a, b):
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    return _Later([a.clone(), b.clone(), out])
