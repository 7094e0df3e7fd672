"""What honest kernels need works inside: compilers, threads, Triton's interpreter, Inductor."""

import shutil

import pytest

from tests.judge.sandbox.conftest import Sandbox


@pytest.fixture(scope="module")
def loaded(interpreting, session):
    return Sandbox(interpreting, session)


def check(ran, expected):
    assert ran.output == expected
    assert ran.exit.code == 0


def test_torch_is_loaded_before_the_fork_and_uses_threads(loaded):
    source = """
import sys
assert "torch" in sys.modules and "triton" in sys.modules
import torch
assert not torch.cuda.is_initialized()
torch.set_num_threads(2)
print((torch.ones(300, 300) @ torch.ones(300, 300)).sum().item())
"""
    check(loaded.run(source), "27000000.0\n")


def test_gcc_compiles_a_program_and_a_library(loaded):
    source = """
import ctypes, subprocess
open("one.c", "w").write("int one(void) { return 7; } int main(void) { return one(); }")
subprocess.run(["gcc", "one.c", "-o", "one"], check=True)
subprocess.run(["gcc", "-shared", "-fPIC", "one.c", "-o", "one.so"], check=True)
print(subprocess.run(["./one"]).returncode, ctypes.CDLL("./one.so").one())
"""
    check(loaded.run(source), "7 7\n")


def test_nvcc_compiles_a_library(loaded):
    assert shutil.which("nvcc"), "nvcc is needed"
    source = """
import os, subprocess
open("one.cu", "w").write("extern \\"C\\" __global__ void one(float* x) { x[threadIdx.x] += 1; }")
subprocess.run(["nvcc", "-arch=sm_90", "-cubin", "one.cu", "-o", "one.cubin"], check=True)
print(os.path.getsize("one.cubin") > 500)
"""
    check(loaded.run(source), "True\n")


TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def add_one(data, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(data + at, tl.load(data + at, mask=at < n) + 1.0, mask=at < n)

data = torch.zeros(100)
add_one[(4,)](data, 100, BLOCK=32)
print(data.sum().item())
"""


def test_a_triton_kernel_runs_in_the_interpreter(loaded):
    # Triton reads a kernel's source from its file.
    source = f"open('kernel.py', 'w').write({TRITON!r})\nimport sys\n"
    check(loaded.run(source + "sys.path.insert(0, '.')\nimport kernel"), "100.0\n")


def test_inductor_compiles_for_the_cpu(loaded):
    source = """
import torch, torch._inductor.config as config
config.cpp.vec_isa_ok = False  # no trial compilation for each vector width
config.cpp_cache_precompile_headers = False
function = torch.compile(lambda x: torch.sin(x) * 2 + 1)
x = torch.ones(64)
print(torch.allclose(function(x), torch.sin(x) * 2 + 1))
"""
    check(loaded.run(source), "True\n")


def test_worker_processes_with_queues_work(loaded):
    source = """
import concurrent.futures, multiprocessing
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    print(sum(pool.map(abs, range(-3, 4))))
"""
    check(loaded.run(source), "12\n")
