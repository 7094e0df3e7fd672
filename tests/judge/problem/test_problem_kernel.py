"""Kernel files: form and language from the syntax tree."""

from pathlib import Path

import pytest

from judge.problem.kernel import Form, KernelFile, Language
from judge.problem.syntax import ProblemFileError
from kb.errors import KbError

CORPUS = Path(__file__).parents[3] / "corpus" / "kernels"
FUNCTION = "def kernel_function(x):\n    return x\n"
CLASS = "class ModelNew:\n    pass\n"
JIT = "import triton\n@triton.jit\ndef k(x):\n    pass\n"


def test_the_form_is_what_the_file_defines():
    assert KernelFile.parse(FUNCTION).form is Form.KERNEL_FUNCTION
    assert KernelFile.parse(CLASS).form is Form.MODEL_NEW
    assert KernelFile.parse("if True:\n    kernel_function = print\n").form is Form.KERNEL_FUNCTION
    assert KernelFile.parse("from k import kernel_function\n").form is Form.KERNEL_FUNCTION


def test_a_class_wins_over_a_function():
    assert KernelFile.parse(FUNCTION + CLASS).form is Form.MODEL_NEW


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("x = 1\n", "k.py", r"k\.py:1: no class ModelNew and no function kernel_function"),
        ("class kernel_function:\n    pass\n", "k.py", r"k\.py:1: .* is not a function"),
        ("x = 1\ndef ModelNew():\n    pass\n", "k.py", r"k\.py:2: ModelNew is not a class"),
        ("def f(:\n", "k.py", r"k\.py:1: not Python"),
        ("__global__ void k();\n", "k.cu", r"k\.cu:1: no entry point is declared"),
    ],
)
def test_files_without_a_usable_form_are_refused(text, name, message):
    with pytest.raises(KbError, match=message):
        KernelFile.parse(text, name)


@pytest.mark.parametrize(
    ("head", "language"),
    [
        (JIT, Language.TRITON),
        ("import triton as t\n@t.autotune([], [])\n@t.jit\ndef k(x):\n    pass\n", Language.TRITON),
        ("import triton\n", Language.TRITON),
        ("from torch.utils.cpp_extension import load_inline\n", Language.CUDA),
        ("import triton\nfrom torch.utils.cpp_extension import load\n", Language.CUDA),
        ("import torch\nk = torch.cuda._compile_kernel('', '')\n", Language.CUDA),
        ("from kb import nvcc\n", Language.CUDA),
        ("import cupy\n", Language.CUDA),
        ("import torch\n", Language.TORCH),
        ("s = 'import triton'\n", Language.TORCH),
    ],
)
def test_the_language(head, language):
    assert KernelFile.parse(head + FUNCTION).language is language


def test_the_corpus_kernels_have_form_and_language():
    for path in sorted(CORPUS.rglob("*.py")):
        kernel = KernelFile.read(path)
        expected = Language.CUDA if path.parent.name == "cuda" else Language.TRITON
        assert (kernel.form, kernel.language) == (Form.KERNEL_FUNCTION, expected)
    with pytest.raises(ProblemFileError, match="cannot read"):
        KernelFile.read(CORPUS / "absent.py")
