"""Launch code of the CUDA transposed convolution: what it tells the kernel, and what it refuses."""

import random

import pytest
import torch

from kb.corpus.loader import shipped_corpus
from kb.verify.kernel_module import load_kernel_module

PATH = shipped_corpus() / "kernels/cuda/conv_transpose_wgmma.py"
MODULE = load_kernel_module(PATH)
axis = MODULE.kernel_function.__globals__["_axis"]


def test_a_dimension_s_numbers_make_the_transposed_convolution() -> None:
    draw = random.Random(0)
    for _ in range(200):
        image, taps, stride = draw.randint(1, 9), draw.randint(1, 4), draw.randint(1, 4)
        dilation = draw.randint(1, 3) * (stride if taps > 1 else 1)
        padding = draw.randint(0, dilation * (taps - 1) // 2)
        more = draw.randint(0, max(stride, dilation) - 1)
        x, weight = torch.randn(image), torch.randn(taps)
        wanted = torch.nn.functional.conv_transpose1d(
            x[None, None], weight[None, None], None, stride, padding, more, 1, dilation
        )[0, 0]
        told = axis(image, taps, stride, padding, dilation, more)
        assert told[:2] == (image, len(wanted))
        _, out, live, _, _, first, step, origin = told
        made = torch.zeros(out)
        for q in range(live):
            for k in range(taps):
                place = q + origin + (taps - 1 - k) * step
                if 0 <= place < image:
                    made[stride * q + first] += x[place] * weight[k]
        torch.testing.assert_close(made, wanted)
        assert stride * live + first >= out


def test_taps_that_reach_outputs_of_several_residues_are_refused() -> None:
    with pytest.raises(ValueError, match="dilation 1 is no multiple of stride 2"):
        axis(8, 3, 2, 1, 1, 0)


@pytest.mark.parametrize(
    ("dtype", "said"), [(torch.float32, "float16 or bfloat16"), (torch.bfloat16, "CUDA device")]
)
def test_what_it_cannot_take_is_said_in_one_line(dtype: torch.dtype, said: str) -> None:
    inputs = MODULE.make_inputs([1, 3, 5, 4, 3, 5, 3, 2, 1, 2, 0, 1], dtype, "cpu", 0)
    with pytest.raises(ValueError, match=said) as error:
        MODULE.kernel_function(*inputs)
    assert "\n" not in str(error.value)
