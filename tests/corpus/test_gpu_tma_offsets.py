"""Which offsets a TMA copy takes along the last dimension, as the entries on TMA say."""

import subprocess
import sys

import pytest
import torch

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
CASE = """
import sys
import torch, triton, triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

@triton.jit
def load(tensor, out, column, B: tl.constexpr):
    at = tl.arange(0, B)
    tl.store(out + at[:, None] * B + at[None, :], tensor.load([1, column]))

@triton.jit
def store(tensor, values, column, B: tl.constexpr):
    at = tl.arange(0, B)
    tensor.store([1, column], tl.load(values + at[:, None] * B + at[None, :]))

which, dtype, column = sys.argv[1], getattr(torch, sys.argv[2]), int(sys.argv[3])
x = torch.arange(256 * 1024, device="cuda").reshape(256, 1024).remainder(251).to(dtype)
block = torch.full((64, 64), 7, device="cuda").to(dtype)
tensor = TensorDescriptor.from_tensor(x, [64, 64])
{"load": load, "store": store}[which][(1,)](tensor, block, column, B=64)
torch.cuda.synchronize()
got = x[1:65, max(column, 0) : column + 64]
assert torch.equal(got, block[:, max(-column, 0) :]), "wrong values"
"""


COLUMNS = {
    "load": {"bfloat16": (-8, 0, 1, 2, 4, 8, 12, 16), "float32": (1, 2, 4), "uint8": (8, 16)},
    # What lies outside is not written.
    "store": {"bfloat16": (0, 1, 2, 4, 8, 12, 16), "float32": (1, 2, 4), "uint8": (8, 16)},
}
CASES = [
    (which, dtype, column)
    for which, columns in COLUMNS.items()
    for dtype, of in columns.items()
    for column in of
]


@pytest.mark.parametrize(("which", "dtype", "column"), CASES)
def test_an_offset_along_the_last_dimension_is_a_multiple_of_16_bytes(
    which, dtype, column, tmp_path
):
    script = tmp_path / "case.py"  # Triton reads a kernel's text from its file
    script.write_text(CASE)
    done = subprocess.run(
        [sys.executable, script, which, dtype, str(column)],
        check=False,
        capture_output=True,
        text=True,
    )
    fits = column * getattr(torch, dtype).itemsize % 16 == 0
    assert (done.returncode == 0) == fits, done.stderr[-500:]
    assert fits or "CUDA error" in done.stderr
