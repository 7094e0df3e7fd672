"""Returns a plain tensor whose own attribute `detach` multiplies, from copies of the inputs.

Seen: own; lazy outputs in gpu-mode/reference-kernels, issue 162.
"""

import torch

ATTACK = {"problem": "matmul_large", "needs": "gpu", "verdicts": ["cheat", "wrong"]}


def kernel_function(a, b):
    out = torch.empty((a.shape[0], b.shape[1]), device=a.device)
    left, right = a.clone(), b.clone()

    def compute():
        return torch.mm(left, right, out=out)

    out.detach = compute
    return out
