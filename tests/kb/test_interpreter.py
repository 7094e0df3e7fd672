"""Reductions and scans with functions of the kernel's own: whole blocks are combined, as right."""

import json

import pytest

SCRIPT = """
import json
import torch
import triton
import triton.language as tl
from triton.runtime import interpreter

CALLS = []

@triton.jit
def logs(m, s, n, t):
    CALLS.append(1)
    top = tl.maximum(m, n)
    return top, s * tl.exp(m - top) + t * tl.exp(n - top)

@triton.jit
def first(a, b):
    return a

@triton.jit
def larger(a, b):
    if a > b:
        found = a
    else:
        found = b
    return found

@triton.jit
def kernel(x, rows, columns, whole, leading, below, beside, back, N: tl.constexpr, M: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    values = tl.load(x + at)
    ones = tl.full((M, N), 1.0, tl.float32)
    top, total = tl.reduce((values, ones), 1, logs)
    tl.store(rows + tl.arange(0, M), top + tl.log(total))
    top, total = tl.reduce((values, ones), 0, logs, keep_dims=True)
    tl.store(columns + tl.arange(0, N)[None, :], top + tl.log(total))
    tl.store(whole, tl.reduce(values, None, larger))
    tl.store(leading + tl.arange(0, M), tl.reduce(values, 1, first))
    top, total = tl.associative_scan((values, ones), 1, logs)
    tl.store(beside + at, top + tl.log(total))
    top, total = tl.associative_scan((values, ones), 0, logs)
    tl.store(below + at, top + tl.log(total))
    top, total = tl.associative_scan((values, ones), 1, logs, reverse=True)
    tl.store(back + at, top + tl.log(total))

M, N = 8, 32
torch.manual_seed(0)
x = torch.randn(M, N)
shapes = (M,), (N,), (1,), (M,), (M, N), (M, N), (M, N)
got = [torch.empty(shape) for shape in shapes]
kernel[(1,)](x, *got, N, M)
right = (
    x.logsumexp(1), x.logsumexp(0), x.amax().reshape(1), x[:, 0], x.logcumsumexp(0),
    x.logcumsumexp(1), x.flip(1).logcumsumexp(1).flip(1),
)
print(json.dumps([[torch.allclose(*each, atol=1e-5) for each in zip(got, right)], len(CALLS)]))
"""


@pytest.fixture(scope="module")
def found(interpreted):
    return json.loads(interpreted(SCRIPT))


def test_what_a_kernels_own_function_combines_is_as_pytorch_has_it(found):
    assert found[0] == [True] * 7


def test_blocks_are_combined_in_as_many_steps_as_the_logarithm(found):
    # 5 + 3 for the reductions, 5 + 3 + 5 for the scans; element by element it would be 1,200.
    assert found[1] == 21
