"""Compiling CUDA: cached by content, clear about what failed, and readable as SASS."""

import ctypes
import stat

import pytest

from kb import nvcc
from kb.nvcc import NvccError

SOURCE = """
__global__ void scale(float* x, float s, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= s;
}
extern "C" int twice(int value) { return 2 * value; }
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setattr(nvcc, "cache_folder", lambda: folder)
    return folder


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "scale.cu"
    path.write_text(SOURCE)
    return path


def test_a_compiled_library_loads_and_its_functions_can_be_called(cache, source):
    library = nvcc.load(source, "sm_90a")
    assert library.twice(ctypes.c_int(21)) == 42


def test_the_same_source_is_compiled_once_and_a_changed_one_again(cache, source, monkeypatch):
    first = nvcc.compile_cubin(source, "sm_90a")
    runs = []
    monkeypatch.setattr(nvcc, "_run", lambda *args: runs.append(args) or "")
    assert nvcc.compile_cubin(source, "sm_90a") == first
    assert runs == []
    source.write_text(SOURCE + "// changed\n")
    with pytest.raises(NvccError):  # the stand-in for nvcc writes no result
        nvcc.compile_cubin(source, "sm_90a")
    assert len(runs) == 1


def test_a_changed_header_beside_the_source_changes_the_key(cache, source, monkeypatch):
    header = source.with_name("scale.cuh")
    header.write_text("// one\n")
    source.write_text('#include "scale.cuh"\n' + SOURCE)
    first = nvcc.compile_cubin(source, "sm_90a")
    header.write_text("// two\n")
    assert nvcc.compile_cubin(source, "sm_90a") != first


def test_a_failed_compilation_leaves_nothing_and_names_the_first_error(cache, source):
    source.write_text(SOURCE.replace("x[i] *= s", "y[i] *= s"))
    with pytest.raises(NvccError, match=r'scale\.cu does not compile: .*"y" is undefined'):
        nvcc.compile_shared(source, "sm_90a")
    assert list(cache.iterdir()) == []


def test_a_missing_source_is_named(cache, tmp_path):
    with pytest.raises(NvccError, match=r"cannot read .*none\.cu"):
        nvcc.compile_shared(tmp_path / "none.cu", "sm_90a")


def test_a_missing_nvcc_says_what_to_do(cache, source, monkeypatch):
    monkeypatch.setattr(nvcc, "find_tool", lambda name: None)
    with pytest.raises(NvccError, match="install the CUDA toolkit"):
        nvcc.compile_shared(source, "sm_90a")
    with pytest.raises(NvccError, match="install the CUDA toolkit's binary utilities"):
        nvcc.disassemble(source)


def test_a_cache_folder_that_cannot_be_written_is_named(source, tmp_path, monkeypatch):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")
    monkeypatch.setattr(nvcc, "cache_folder", lambda: blocked / "nvcc")
    with pytest.raises(NvccError, match="cannot write compiled kernels to"):
        nvcc.compile_shared(source, "sm_90a")


def test_the_sass_and_the_resource_report_of_a_cubin_are_read(cache, source):
    cubin = nvcc.compile_cubin(source, "sm_90a")
    assert "STG.E" in nvcc.disassemble(cubin)
    (usage,) = nvcc.resource_usage(cubin)
    assert "scale" in usage.function
    assert usage.registers > 0
    assert (usage.spill_bytes, usage.shared_bytes) == (0, 0)


def test_nvcc_is_found_under_cuda_home_when_path_has_none(tmp_path, monkeypatch):
    tool = tmp_path / "bin" / "nvcc"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert nvcc.find_nvcc() == tool
