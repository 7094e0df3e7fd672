"""Nsight Compute and compute-sanitizer for real: needs a GPU whose counters may be read."""

import pytest
import torch
from profile_files import CUDA, MATMUL, PROBLEM

from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.profile.profiler import Request, profile
from judge.sandbox.launch import Zygote

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

SOFTMAX = """
import torch
class ModelNew(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
    def forward(self, x):
        return torch.softmax(torch.relu(x), dim=-1)
"""
COPY_PROBLEM = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x.clone()
def get_inputs():
    return [torch.rand(1 << 26)]
def get_init_inputs():
    return []
"""
# Writes one element past the end of its own allocation of 1 KB.
OUT_OF_BOUNDS = """
import torch
import triton
import triton.language as tl
@triton.jit
def past_the_end(y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, i.to(tl.float32), mask=i < n + 64)
def kernel_function(x):
    y = torch.empty(256, device=x.device)
    past_the_end[(1,)](y, 256, 512)
    return y
"""
# What every card since sm_70 has; the rest may be missing.
EVERYWHERE = (
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "lts__t_sector_hit_rate.pct",
    "l1tex__t_sector_hit_rate.pct",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    "smsp__warp_issue_stalled_long_scoreboard_per_warp_active.pct",
    "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct",
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__waves_per_multiprocessor",
    "sm__maximum_warps_per_active_cycle_pct",
)


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as loaded:
        yield loaded


def profiled(zygote, problem, kernel, name="kernel.py", **options):
    request = Request(
        problem=ProblemFile.parse(problem), kernel=KernelFile.parse(kernel, name), **options
    )
    found = profile(request, zygote)
    assert found.ncu_version, "\n".join(found.notes)
    return found


def test_a_triton_matmul_is_profiled_with_its_machine_code(zygote):
    found = profiled(zygote, PROBLEM, MATMUL, dtype="bfloat16", calls=2)
    kernel = found.kernels[0]
    assert (kernel.name, kernel.launches) == ("matmul", 2)
    absent = [name for name in EVERYWHERE if name not in kernel.metrics]
    assert absent == []
    metrics = kernel.metrics
    assert metrics["sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"] > 10
    # Two inputs of 32 MiB each have to be read at least once, caches being cold.
    assert metrics["dram__bytes_read.sum"] >= 0.95 * 2 * 4096 * 4096 * 2
    assert kernel.static is not None, [each.name for each in found.static]
    assert kernel.static.registers == metrics["launch__registers_per_thread"]
    assert found.gpu == torch.cuda.get_device_name(0)


def test_library_kernels_are_kept_apart_by_name(zygote):
    found = profiled(zygote, PROBLEM, SOFTMAX)
    assert len(found.kernels) == 2
    assert sum(kernel.share for kernel in found.kernels) == pytest.approx(1.0)
    assert any("softmax" in kernel.name.lower() for kernel in found.kernels)
    assert all(kernel.static is None for kernel in found.kernels)


def test_a_vectorised_copy_reads_each_byte_once_in_full_sectors(zygote):
    found = profiled(zygote, COPY_PROBLEM, CUDA, "copy.cu")
    kernel = found.kernels[0]
    assert "copy_vectors" in kernel.name
    assert kernel.static is not None
    assert kernel.static.widths["global_load"] == {128: 1}
    metrics = kernel.metrics
    size = 4 * (1 << 26)
    assert metrics["dram__bytes_read.sum"] == pytest.approx(size, rel=0.05)
    assert metrics["smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct"] > 99
    seconds = metrics["gpu__time_duration.sum"] * 1e-9
    moved = metrics["dram__bytes_read.sum"] + metrics["dram__bytes_write.sum"]
    assert moved / seconds == pytest.approx(metrics["dram__bytes.sum.per_second"], rel=0.05)


def test_the_sanitizer_finds_a_write_out_of_bounds_and_passes_a_right_kernel(zygote):
    bad = profiled(zygote, COPY_PROBLEM, OUT_OF_BOUNDS, sanitize=["memcheck"])
    [report] = bad.sanitizer
    assert report.errors, report.detail
    assert any("Invalid __global__ write" in finding for finding in report.findings)
    good = profiled(zygote, COPY_PROBLEM, CUDA, "copy.cu", sanitize=["memcheck"])
    assert good.sanitizer[0].errors == 0, good.sanitizer[0]
