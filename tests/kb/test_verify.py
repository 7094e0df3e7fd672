"""Verification finds each kind of broken kernel, names it, and goes on to the others."""

import sys
import textwrap

import pytest

from kb.errors import NotFoundError
from kb.verify import verify_corpus
from kb.verify.cache import ResultCache

FRONT_MATTER = """\
---
slug: {slug}
title: A kernel for a test
op: elementwise-add
language: triton
architectures: [sm_80]
dtypes: [{dtypes}]
sources: [{{title: A source, url: https://example.org, licence: Apache-2.0}}]
sizes: {{check: [[8, 4], [7, 5]], bench: [64, 64]}}
check_params: {{{check_params}}}
{more}---
"""

EXPORTS = """
import os, time
import torch

TUNABLES = {"block": [16, 32]}

def kernel_function(a, b, block=16):
    return a + b  # the kernel

def reference(a, b):
    return a + b

def make_inputs(size, dtype, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, generator=generator).to(device, dtype) for _ in range(2)]
"""

BODY = "return a + b  # the kernel"
RANDOM = "torch.randn(size, generator=generator)"

# slug: (what is replaced in EXPORTS, by what, the check that must fail, part of its message)
BROKEN = {
    "wrong-result": (BODY, "return a - b", "result", "8x4 float32: wrong: relative error"),
    "reads-nothing": (BODY, "return torch.zeros_like(a)", "result", "wrong: relative error"),
    "raises": (
        BODY, "raise RuntimeError('out of tiles')", "result",
        "RuntimeError: out of tiles (raises.py:",
    ),
    "hangs": (BODY, "time.sleep(600)", "result", "8x4 float32: no result after 10 s"),
    "crashes": (BODY, "os.abort()", "result", "process died (signal SIGABRT)"),
    "exits": (BODY, "os._exit(0)", "result", "process died (exit status 0)"),
    "leaves": (BODY, "raise SystemExit(3)", "result", "process died (exit status 3)"),
    "kills-its-parent": (
        BODY, "os.kill(os.getppid(), 9); os.abort()", "result", "process died (signal SIGKILL)",
    ),
    "writes-input": (BODY, "return a.add_(b).clone()", "result", "modified its input 0"),
    "unwritten": (
        BODY, "out = torch.empty_like(a); out[:-1] = (a + b)[:-1]; return out", "result",
        "are not finite (or not written)",
    ),
    "wrong-dtype": (
        BODY, "return (a + b).double()", "result",
        "dtype torch.float64 instead of torch.float32",
    ),
    "wrong-shape": (BODY, "return (a + b)[:, :1]", "result", "shape (8, 1) instead of (8, 4)"),
    "two-outputs": (BODY, "return a + b, a", "result", "2 outputs where the reference has 1"),
    "no-tensor": (BODY, "return 3", "result", "a tensor or a tuple of tensors, not int"),
    "zero-inputs": (
        RANDOM, "torch.zeros(size)", "power", "zeros in place of output 0 would pass",
    ),
    "constant-inputs": (
        RANDOM, "torch.ones(size)", "power", "shifted output in place of output 0 would pass",
    ),
    "missing-export": ("def make_inputs", "def inputs", "exports", "not export make_inputs"),
    "wrong-signature": (
        "seed):", "key):", "exports", "make_inputs takes (size, dtype, device, key)",
    ),
    "unknown-tunable": (
        "[16, 32]", '[16, 32], "warps": [4]', "exports", "TUNABLES names 'warps'",
    ),
    "default-not-listed": ("[16, 32]", "[32, 64]", "exports", "default block=16 is not among"),
    "import-error": (
        "import os, time", "import no_such_package", "exports",
        "No module named 'no_such_package'",
    ),
}  # fmt: skip

GOOD_TRITON = """
import torch, triton
import triton.language as tl

TUNABLES = {"block": [16, 32]}

@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at, mask=at < n) + tl.load(b + at, mask=at < n), mask=at < n)

def kernel_function(a, b, block=16):
    print("what a kernel prints does not disturb the results")
    out = torch.empty_like(a)
    add[(triton.cdiv(a.numel(), block),)](a, b, out, a.numel(), BLOCK=block)
    return out

def reference(a, b):
    return a + b

def make_inputs(size, dtype, device, seed):
    generator = torch.Generator(device=device).manual_seed(seed)
    return [torch.randn(size, generator=generator).to(device, dtype) for _ in range(2)]
"""


def write_kernel(root, slug, code, *, check_params="block: 32", dtypes="float32", more=""):
    folder = root / "kernels" / "triton"
    folder.mkdir(parents=True, exist_ok=True)
    (root / "corpus.yaml").write_text("name: t\nversion: '1'\nlicence: Apache-2.0\n")
    front = FRONT_MATTER.format(slug=slug, check_params=check_params, dtypes=dtypes, more=more)
    name = slug.replace("-", "_") + ".py"
    (folder / name).write_text(f'"""\n{front}"""\n{textwrap.dedent(code)}')


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """One run over a corpus of broken kernels, with a good one at the end of the line."""
    root = tmp_path_factory.mktemp("verify") / "broken"
    for slug, (old, new, _, _) in BROKEN.items():
        assert old in EXPORTS, slug
        write_kernel(root, slug, EXPORTS.replace(old, new, 1))
    write_kernel(root, "bad-check-params", EXPORTS, check_params="tile: 8")
    write_kernel(root, "needs-gpu", EXPORTS, more="interpretable: false\n")
    in_dict = GOOD_TRITON.replace("tl.program_id(0) * B", '{"id": tl.program_id(0)}["id"] * B')
    assert in_dict != GOOD_TRITON
    write_kernel(root, "uses-a-dict", in_dict)
    write_kernel(root, "z-good", GOOD_TRITON, dtypes="float32, float16")
    seen = []
    found = verify_corpus(root, on_result=seen.append, case_timeout_s=10)
    assert seen == found
    return {(result.slug, result.check): result for result in found}


@pytest.mark.parametrize("slug", BROKEN)
def test_a_broken_kernel_fails_the_check_that_fits_with_a_message_that_says_why(results, slug):
    _, _, check, message = BROKEN[slug]
    result = results[slug, check]
    assert result.failed
    assert message in result.detail
    assert "\n" not in result.detail


def test_check_params_must_name_tunables(results):
    assert "check_params names 'tile'" in results["bad-check-params", "exports"].detail


def test_a_kernel_the_interpreter_cannot_run_is_neither_passed_nor_failed(results):
    result = results["needs-gpu", "result"]
    assert result.not_run and not result.passed and not result.failed
    assert "not run" in result.detail


def test_a_good_kernel_passes_every_check_after_all_that_broke_before_it(results):
    checks = {check: result for (slug, check), result in results.items() if slug == "z-good"}
    assert set(checks) == {"exports", "result", "power", "compile sm_90"}
    assert all(result.passed for result in checks.values()), checks
    assert "4 cases agree" in checks["result"].detail


def test_what_the_interpreter_accepts_and_the_compiler_does_not_is_found(results):
    assert results["uses-a-dict", "result"].passed
    result = results["uses-a-dict", "compile sm_90"]
    assert result.failed
    assert result.detail.startswith("UnsupportedLanguageConstruct")
    assert len(result.detail) < 500


def test_only_the_kernels_asked_for_are_run(tmp_path):
    write_kernel(tmp_path, "good", GOOD_TRITON)
    write_kernel(tmp_path, "raises", EXPORTS.replace("return a + b", "raise ValueError", 1))
    found = verify_corpus(tmp_path, only=["good"])
    assert {result.slug for result in found} == {tmp_path.name, "good"}
    assert all(result.passed for result in found)
    with pytest.raises(
        NotFoundError, match="'matmul' is not a kernel of this corpus: it has good, r"
    ):
        verify_corpus(tmp_path, only=["matmul"])
    with pytest.raises(NotFoundError, match=r"of this corpus: did you mean raises\?"):
        verify_corpus(tmp_path, only=["raise"])


def test_a_malformed_entry_is_one_failed_result_that_names_file_and_line(tmp_path):
    write_kernel(tmp_path, "good", GOOD_TRITON, more="colour: green\n")
    (result,) = verify_corpus(tmp_path)
    assert result.failed
    assert result.check == "entries"
    assert "good.py:12: unknown key 'colour'" in result.detail


def test_a_missing_package_is_a_failure_that_says_what_to_install(tmp_path, monkeypatch):
    write_kernel(tmp_path / "corpus", "good", GOOD_TRITON)
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, package=None: "
        "None if name in ('torch', 'triton') else find(name, package)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(hide))
    found = verify_corpus(tmp_path / "corpus")
    assert found[-1].failed
    assert found[-1].detail == "torch is not installed: pip install 'kernel-kb[gpu]'"


CUDA = """
extern "C" __global__ void add(const float* a, const float* b, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = a[i] + b[i];
}
"""


def write_cuda_kernel(root, slug, code, sass):
    write_kernel(root, slug, EXPORTS)  # its exports serve as the launch code
    front = FRONT_MATTER.format(
        slug=slug, check_params="", dtypes="float32", more=f"expect_sass: {{sm_90a: ['{sass}']}}\n"
    ).replace("triton", "cuda").replace("[sm_80]", "[sm_90a]")  # fmt: skip
    folder = root / "kernels" / "cuda"
    folder.mkdir(parents=True, exist_ok=True)
    name = slug.replace("-", "_")
    (root / "kernels" / "triton" / f"{name}.py").rename(folder / f"{name}.py")
    (folder / f"{name}.cu").write_text(f"/*\n{front}*/\n{code}")


def test_cuda_kernels_are_compiled_and_their_sass_is_searched(tmp_path):
    write_cuda_kernel(tmp_path, "adds", CUDA, "FADD")
    write_cuda_kernel(tmp_path, "promises-wide-loads", CUDA, "LDG.E.128")
    write_cuda_kernel(tmp_path, "does-not-compile", CUDA.replace("out[i]", "res[i]"), "FADD")
    found = {(r.slug, r.check): r for r in verify_corpus(tmp_path)}
    assert found["adds", "compile sm_90a"].passed
    assert "no spills; SASS has FADD" in found["adds", "compile sm_90a"].detail
    assert found["promises-wide-loads", "compile sm_90a"].failed
    assert "matches 'LDG.E.128'" in found["promises-wide-loads", "compile sm_90a"].detail
    assert '"res" is undefined' in found["does-not-compile", "compile sm_90a"].detail
    assert found["adds", "result"].not_run or found["adds", "result"].passed  # with a GPU it runs


def test_a_missing_nvcc_is_a_failure_that_says_what_to_install(tmp_path, monkeypatch):
    write_cuda_kernel(tmp_path, "adds", CUDA, "FADD")
    monkeypatch.setattr("kb.nvcc.find_tool", lambda name: None)
    (result,) = (r for r in verify_corpus(tmp_path) if r.check == "compile sm_90a")
    assert result.failed
    assert "install the CUDA toolkit" in result.detail


def test_verification_imports_no_torch_in_the_calling_process():
    import subprocess

    code = "import sys, kb.verify, kb.nvcc; sys.exit(bool({'torch', 'triton'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unchanged_kernel_is_not_run_again_and_a_changed_or_failed_one_is(tmp_path):
    root, cache = tmp_path / "corpus", ResultCache(tmp_path / "cache")
    write_kernel(root, "wrong", EXPORTS.replace(BODY, "return a - b"))
    write_kernel(root, "z-good", GOOD_TRITON)

    def by_slug():
        found = verify_corpus(root, cache=cache)
        return {slug: [r for r in found if r.slug == slug] for slug in ("wrong", "z-good")}

    first = by_slug()
    second = by_slug()
    # Times are measured anew where a kernel ran, so equal times mean that it did not.
    assert second["z-good"] == first["z-good"]
    assert second["wrong"] != first["wrong"]
    assert any(result.failed for result in second["wrong"])

    write_kernel(root, "z-good", GOOD_TRITON.replace("a.numel(), BLOCK", "a.numel() - 1, BLOCK"))
    assert any(result.failed for result in by_slug()["z-good"])
