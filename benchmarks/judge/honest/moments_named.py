"""The same in two passes over registers, returned under names."""

from typing import NamedTuple

import torch
import triton
import triton.language as tl

HONEST = {"problem": "moments", "needs": "cpu", "verdicts": ["correct"]}


@triton.jit
def _moments(x_ptr, mean_ptr, var_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < columns
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0)
    mean = tl.sum(x) / columns
    distance = tl.where(inside, x - mean, 0)
    tl.store(mean_ptr + row, mean)
    tl.store(var_ptr + row, tl.sum(distance * distance) / columns)


class Moments(NamedTuple):
    mean: torch.Tensor
    var: torch.Tensor


def kernel_function(x):
    rows, columns = x.shape
    mean = torch.empty((rows,), dtype=x.dtype, device=x.device)
    var = torch.empty_like(mean)
    _moments[(rows,)](x, mean, var, columns, BLOCK=triton.next_power_of_2(columns))
    return Moments(mean, var)
