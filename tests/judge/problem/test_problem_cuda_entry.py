"""A lone .cu: its declaration, and calls of its entry point.

There is no GPU here: the entry points compute on the host, which every step but the launch itself
treats alike.
"""

import inspect

import pytest
import torch

from judge.problem.binding import bind
from judge.problem.cuda_entry import build, read_entry
from judge.problem.kernel import Form, KernelFile, Language
from kb.errors import KbError

SOURCE = """/*
---
entry: scale_rows
inputs: [x, weight, factor]
outputs:
  - {name: y, like: x}
  - {name: codes, shape: ["x.shape[0]", "x.shape[1] // 2 + x.ndim - 2"], dtype: uint8}
arguments: x, weight, y, codes, float factor, int64 x.shape[0], int64 x.shape[-1], int x.dtype,
  double 2 * factor, int64 x.numel, stream
architectures: [sm_90, sm_100a]
---
Rows times a factor.
*/
#include <cstdint>

extern "C" int scale_rows(const float* x, const float* weight, float* y, uint8_t* codes,
                          float factor, int64_t rows, int64_t length, int dtype, double twice,
                          int64_t count, void* stream) {
    if (dtype != 2 || twice != 2.0 * double(factor) || stream || count != rows * length) return 7;
    for (int64_t i = 0; i < count; ++i) y[i] = x[i] * factor * (weight ? weight[i % length] : 1);
    for (int64_t i = 0; i < rows * (length / 2); ++i) codes[i] = uint8_t(i);
    return 0;
}
"""


@pytest.fixture(scope="module")
def scale_rows():
    return build(SOURCE, "scale.cu", "sm_90a")


def test_the_entry_point_is_called_as_declared(scale_rows):
    x = torch.arange(12.0).reshape(2, 6)
    y, codes = scale_rows(x.t().contiguous().t(), torch.full((6,), 2.0), 1.5)
    assert torch.equal(y, 3 * x)
    assert codes.dtype == torch.uint8
    assert codes.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_none_is_a_null_pointer(scale_rows):
    y, _ = scale_rows(torch.ones(3, 4), weight=None, factor=2.0)
    assert torch.equal(y, torch.full((3, 4), 2.0))


def test_an_error_code_is_raised(scale_rows):
    with pytest.raises(RuntimeError, match="scale_rows failed with CUDA error 7"):
        scale_rows(torch.ones(3, 4, dtype=torch.float64), None, 2.0)


def test_its_inputs_are_bound_as_a_kernel_functions_are(scale_rows):
    assert list(inspect.signature(scale_rows).parameters) == ["x", "weight", "factor"]
    binding = bind(scale_rows, 1, ["norm.weight"], {"factor": 0.5})
    y, _ = binding.call(scale_rows, [torch.ones(1, 2)], {"norm.weight": torch.tensor([2.0, 4.0])})
    assert y.tolist() == [[1.0, 2.0]]


def test_a_kernel_file_carries_its_declaration():
    kernel = KernelFile.parse(SOURCE, "scale.cu")
    assert (kernel.form, kernel.language) == (Form.CUDA, Language.CUDA)
    assert kernel.entry is not None
    assert [output.name for output in kernel.entry.outputs] == ["y", "codes"]


def test_another_device_is_refused():
    with pytest.raises(KbError, match=r"is for sm_100a only, but the device is sm_90a"):
        build(SOURCE.replace("[sm_90, sm_100a]", "[sm_100a]"), "scale.cu", "sm_90a")


def test_a_missing_function_and_code_that_does_not_compile_are_told():
    renamed = SOURCE.replace("int scale_rows(", "int other_name(")
    with pytest.raises(KbError, match="no function 'scale_rows'"):
        build(renamed, "scale.cu", "sm_90a")
    with pytest.raises(KbError, match="does not compile"):
        build(SOURCE.replace("int64_t count", "int65_t count"), "scale.cu", "sm_90a")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("entry: scale_rows\n", "", r"scale\.cu:3: missing key 'entry'"),
        ("like: x", "like: z", r"'z' is not an input"),
        ("{name: y, like: x}", "{name: y}", r"scale\.cu:6: .*give either 'like' or 'shape'"),
        ("dtype: uint8", "dtype: uint7", r"unknown dtype 'uint7'"),
        (", dtype: uint8", "", r"'shape' needs a 'dtype'"),
        (": x, weight, y, codes,", ": x, weight, codes,", r"output 'y' is not among the arguments"),
        ("float factor", "half factor", r"argument 'half factor'"),
        ("int64 x.numel", "int64 x.numel.__class__", r"is not allowed here"),
        ("int64 x.numel", "int64 __import__('os').getpid()", r"is not allowed here"),
        ("int64 x.numel", "int64 x.shape[open]", r"is not allowed here"),
        ("int64 x.numel", "int64 2 **** 3", r"is not an expression"),
        (
            "inputs: [x, weight, factor]",
            "inputs: [x, x, factor]",
            r"the name 'x' is used twice or reserved",
        ),
        (
            "inputs: [x, weight, factor]",
            "inputs: [x, stream, factor]",
            r"'stream' is used twice or reserved",
        ),
        ("[sm_90, sm_100a]", "[hopper]", r"'hopper' is not an architecture"),
        ("architectures:", "architecture:", r"unknown key 'architecture'"),
    ],
)
def test_a_malformed_declaration_is_refused_with_its_line(old, new, message):
    assert old in SOURCE
    with pytest.raises(KbError, match=message) as caught:
        read_entry(SOURCE.replace(old, new), "scale.cu")
    assert str(caught.value).startswith("scale.cu:")
