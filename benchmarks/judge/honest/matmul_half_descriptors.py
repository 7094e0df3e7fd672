"""Tensor descriptors, kept by address and shape: they hold no data."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

HONEST = {"problem": "matmul_half", "needs": "cpu", "verdicts": ["correct", "specialised"]}


@triton.jit
def _matmul(a, b, c, k, T: tl.constexpr):
    row = tl.program_id(0) * T
    column = tl.program_id(1) * T
    sums = tl.zeros((T, T), tl.float32)
    for first in range(0, k, T):
        sums = tl.dot(a.load([row, first]), b.load([first, column]), sums)
    c.store([row, column], sums.to(tl.float16))


_T = 32
_descriptors: dict = {}


def _described(tensor):
    key = (tensor.data_ptr(), tuple(tensor.shape))
    if key not in _descriptors:
        _descriptors[key] = TensorDescriptor.from_tensor(tensor, [_T, _T])
    return _descriptors[key]


def kernel_function(a, b):
    m, k = a.shape
    n = b.shape[1]
    # A descriptor needs strides of whole 16 bytes.
    if k % 8 or n % 8:
        raise ValueError("both inner strides must be multiples of 8 elements")
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    output = TensorDescriptor.from_tensor(c, [_T, _T])
    grid = (triton.cdiv(m, _T), triton.cdiv(n, _T))
    _matmul[grid](_described(a), _described(b), output, k, T=_T)
    return c
