"""Static facts of kernel files at their problems' shapes, in the sandbox, without a GPU."""

from functools import partial
from pathlib import Path

import pytest
import torch
from profile_files import CUDA, INLINE, MATMUL, PERSISTENT, PROBLEM

from judge.problem.kernel import KernelFile
from judge.problem.source import ProblemFile
from judge.profile import profiler
from judge.profile.compiling import pretended_gpu
from judge.profile.profiler import Request, profile
from judge.profile.sanitize import SanitizerError
from judge.sandbox.launch import Zygote
from judge.sandbox.layers import missing
from kb.errors import InvalidInputError


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch):
    monkeypatch.setattr(profiler, "has_gpu", lambda: False)


@pytest.fixture(scope="module")
def zygote():
    with Zygote() as loaded:
        yield loaded


@pytest.fixture
def facts(zygote):
    return partial(facts_from, zygote)


def facts_from(zygote, text, name="kernel.py", architecture="sm_90a", **options):
    request = Request(
        problem=ProblemFile.parse(PROBLEM),
        kernel=KernelFile.parse(text, name),
        dtype="bfloat16",
        architecture=architecture,
        **options,
    )
    return profile(request, zygote)


def test_a_triton_matmul_uses_warp_group_products_on_sm_90_and_shared_memory(facts):
    found = facts(MATMUL)
    [matmul] = found.static
    assert (matmul.name, matmul.origin, matmul.architecture) == ("matmul", "triton", "sm_90a")
    assert matmul.mix["wgmma"] > 0
    assert any(opcode.startswith("HGMMA.") for opcode in matmul.opcodes)
    assert 64 <= matmul.registers <= 255
    assert matmul.shared_bytes >= 3 * 2 * 128 * 64  # three stages of a 128 x 64 bf16 tile at least
    assert matmul.threads_per_block == 256
    assert matmul.widths["async_copy"] == {128: matmul.mix["async_copy"]}
    assert "matmul is autotuned: facts of configuration 1 of 2" in found.notes
    assert found.kernels == ()
    assert found.metrics == {}
    assert not missing(found.layers)


def test_the_same_matmul_uses_the_tensor_cores_of_sm_100(facts):
    [matmul] = facts(MATMUL, architecture="sm_100a").static
    assert matmul.architecture == "sm_100a"
    assert matmul.mix["tcgen05"] > 0
    assert "wgmma" not in matmul.mix


def test_what_was_compiled_before_contents_were_needed_is_kept_and_the_rest_said(facts):
    found = facts(PERSISTENT)
    [scale] = found.static
    assert scale.name == "scale"
    assert scale.widths["global_load"] == {128: scale.mix["global_load"]}
    assert any("without a GPU, the kernel file failed with" in note for note in found.notes)


def test_a_lone_cuda_file_is_compiled_by_itself(facts):
    [copy] = facts(CUDA, "copy.cu").static
    assert (copy.name, copy.origin) == ("copy_vectors", "nvcc")
    assert copy.widths["global_load"] == {128: 1}


def test_libraries_that_the_kernel_file_builds_are_read(facts):
    found = facts(INLINE)
    [halves] = found.static
    assert (halves.function, halves.origin) == ("halves", "nvcc")
    assert halves.widths["global_load"] == {16: 1}


def test_a_kernel_file_that_does_not_load_leaves_a_note(facts):
    found = facts("def kernel_function(x, linear_weight):\n    return x\nimport no_such_module\n")
    assert found.static == ()
    assert any("no_such_module" in note for note in found.notes)


def test_without_a_gpu_an_architecture_must_be_named(facts):
    with pytest.raises(InvalidInputError, match="--arch sm_90a"):
        facts(MATMUL, architecture=None)


def test_the_kernel_file_sees_no_other_files(facts, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hidden")
    text = f"open({str(secret)!r}).read()\ndef kernel_function(x, linear_weight):\n    return x\n"
    [note] = [each for each in facts(text).notes if "failed with" in each]
    assert "FileNotFoundError" in note or "PermissionError" in note
    assert Path(secret).read_text() == "hidden"


INDEXED = {
    "x[1:3]": (2, 6, 4), "x[-1]": (6, 4), "x[..., 0]": (8, 6), "x[:, None, 2]": (8, 1, 4),
    "x[i]": (5, 6, 4), "x[::2, i, 1:]": (4, 5, 3), "x[0, ..., None]": (6, 4, 1),
    "x[[0, 2]]": (2, 6, 4), "x.transpose(0, 1).contiguous()": (6, 8, 4),
}  # fmt: skip


@pytest.mark.parametrize("text", INDEXED)
def test_tensors_without_contents_are_indexed(text):
    with pretended_gpu("sm_90a", 132):
        names = {"x": torch.empty(8, 6, 4, device="cuda:0")}
        names["i"] = torch.zeros(5, dtype=torch.int64, device="cuda:0")
        found = eval(text, names)
        assert (tuple(found.shape), found.device.type) == (INDEXED[text], "cuda")


def test_an_absent_sanitizer_is_said_and_the_rest_goes_on(facts, monkeypatch):
    def absent():
        raise SanitizerError("compute-sanitizer was not found")

    monkeypatch.setattr(profiler, "find_sanitizer", absent)
    found = facts(CUDA, "copy.cu", sanitize=["memcheck"])
    [report] = found.sanitizer
    assert (report.errors, report.detail) == (None, "compute-sanitizer was not found")
    assert [each.name for each in found.static] == ["copy_vectors"]
