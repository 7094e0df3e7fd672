"""A piece of code is told to be a kernel, device code, the host's side, a type, or none of them."""

from pathlib import PurePosixPath

import pytest

from ingest.chunkers import chunk_file
from ingest.roles import role_of

CUDA = """
template <int kN, typename T = Vec<float, 4>>
__global__ void scale_kernel(float* x) {
  x[threadIdx.x] *= kN;
}

template <class A, class B>
__device__ float helper(A a, B b) { return a + b; }

void launch(float* x) {
  scale_kernel<4><<<1, 32>>>(x);
}

struct Params { float* x; int n; };
"""
PYTHON = """
import triton
import triton.language as tl


@triton.jit
def _inner(x):
    return x * 2


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, _inner(tl.load(x_ptr + i)))


def unrelated():
    return 1


def launch(x):
    double_kernel[(1,)](x, 4, BLOCK=32)


class Config:
    block = 32


@cute.kernel
def tile_kernel(a):
    cute.copy(a, a)


@cute.jit
def tile_helper(a):
    return a


@cute.jit
def tile_host(a):
    tile_kernel(a).launch(grid=(1, 1, 1))
"""


def roles(name: str, text: str) -> dict[str, str]:
    return {piece.symbol or "": role_of(piece) for piece in chunk_file(PurePosixPath(name), text)}


def test_cuda_is_told_apart_by_its_marks():
    found = roles("a.cu", CUDA)
    assert found["scale_kernel"] == "kernel"
    assert found["helper"] == "device"
    assert found["launch"] == "host"
    assert found["Params"] == "type"


def test_triton_and_cute_dsl_are_told_apart_by_what_they_do():
    found = roles("a.py", PYTHON)
    assert found["double_kernel"] == "kernel"
    assert found["_inner"] == "device"
    assert found["launch"] == "host"
    assert found["unrelated"] == "host"
    assert found["Config"] == "type"
    assert found["tile_kernel"] == "kernel"
    assert found["tile_helper"] == "device"
    assert found["tile_host"] == "host"
    assert found[""] == "other"


@pytest.mark.parametrize("name", ["a.md", "a.txt"])
def test_a_document_has_no_role(name):
    assert set(roles(name, "# Title\n\nSome words.\n").values()) == {""}
