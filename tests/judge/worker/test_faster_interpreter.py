"""The interpreter without its repeated work: what kernels compute, and what it counts of them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json
import os
import sys
import traceback
import torch
import triton
import triton.language as tl
from judge.worker.interpreted import TooLongError, Watch

watch = Watch()


@triton.jit
def halves(x):
    return x / 2


@triton.jit
def sums(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += halves(tl.load(x + row * columns + at, mask=at < columns, other=0.0))
    tl.store(out + row, tl.sum(total, 0) + tl.max(total[None, :] * 0, 1).sum(0))


@triton.jit
def wraps(x, out):
    at = tl.arange(0, 4)
    tl.store(out + at, tl.load(x + at) * 2147483647 + 1)


@triton.jit
def mixes(x, half, out, size):
    at = tl.program_id(0) * 4 + tl.arange(0, 4)
    held = at < size
    whole = tl.load(x + at, mask=held, other=1)
    tl.store(out + at, whole * 1 / 2 + 1.0 / (whole * 1), mask=held)
    tl.store(at + (out + size), 1 / (whole * 0.0 + -0.0) - 1 / (whole * -0.0), mask=size > at)
    # A number widens what it is added to only where it is of another kind.
    tl.store(out + 2 * size + at, 2049 + tl.load(half + at, mask=held) + 0.5 * 1, mask=held)
    tl.store(out + 3 * size + at, (whole * 2147483647 + 2) // 2 * 4.0, mask=held)
    table = tl.where(whole[:, None] > 1, 3.0, size) + tl.where(held, at, -1)[None, :] % 2
    tl.store(out + 4 * size + at, tl.max(table, 1) - 2**-1, mask=held)


def run_sums():
    x, out = torch.randn(3, 40), torch.empty(3)
    sums[lambda meta: (x.shape[0],)](x, out, 40, BLOCK=16)
    torch.testing.assert_close(out, x.sum(1) / 2)


def run_wraps():
    x = torch.tensor([1, 2, 3, -7], dtype=torch.int32)
    out = torch.empty_like(x)
    wraps[(1,)](x, out)
    assert torch.equal(out, x * 2147483647 + 1), out


failed = {}
for name, test in json.load(sys.stdin).items():
    reading, writing = os.pipe()
    if os.fork() == 0:  # what one test leaves, the next does not see
        try:
            exec(test)
        except BaseException:
            os.write(writing, traceback.format_exc().encode()[-2000:])
        os._exit(0)
    os.close(writing)
    failed[name] = os.fdopen(reading).read()
print(json.dumps(failed))
"""
TESTS = {
    "launches in a row, with functions of the device and of Triton": """
for _ in range(3):
    watch.begin(None)
    run_sums()
    run_wraps()
assert not hasattr(tl.sum, "called"), "the language is as it was after a launch"
try:
    tl.arange(0, 4)
except ValueError as error:
    assert "_semantic" in str(error)
else:
    raise AssertionError("the language is still patched")
""",
    "numbers, scalars and blocks in one expression": """
x = torch.tensor([1, 2, -3, 4, 7])
half = torch.tensor([0.5, 1.0, 2.0, 3.0, 4.0], dtype=torch.float16)
for dtype in (torch.int32, torch.int64):
    given, out = x.to(dtype), torch.empty(5, 5)
    mixes[(2,)](given, half, out, 5)
    zeros = 1 / (given * 0.0 + -0.0) - 1 / (given * -0.0)
    halves = torch.trunc((given * 2147483647 + 2).double() / 2) * 4
    largest = torch.where(x > 1, 3.0, 5.0) + torch.tensor([0.5] * 4 + [-0.5])
    expected = [x / 2 + 1 / x, zeros, half + 2049 + 0.5, halves, largest]
    expected = torch.stack([each.float() for each in expected])
    torch.testing.assert_close(out, expected, rtol=2e-7, atol=0, equal_nan=True)
""",
    "programs and accesses are counted": """
watch.begin(None)
run_sums()
assert watch.counts()["programs"] == {"sums, axis 0": 3}, watch.counts()
assert watch.counts()["accesses"] == 3 * (3 + 1), watch.counts()
assert watch.counts()["blocks"] == [16]
assert list(watch.counts()["loops"].values()) == [3]
""",
    "a call of too many accesses ends whatever the host catches": """
watch.begin(5)
try:
    try:
        run_sums()
    except Exception:
        pass
except TooLongError as error:
    assert "more than 5 memory accesses" in str(error)
else:
    raise AssertionError("it went on")
watch.begin(None)
run_sums()
""",
}


@pytest.fixture(scope="module")
def failures(tmp_path_factory) -> dict[str, str]:
    """Name → traceback, empty for a test that passed; one process loads torch for all."""
    program = tmp_path_factory.mktemp("interpreter") / "program.py"  # Triton reads kernels in files
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, str(program)], input=json.dumps(TESTS),
        env=os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": str(Path.cwd())},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", TESTS)
def test_interpreted_kernels(name: str, failures: dict[str, str]) -> None:
    assert failures[name] == ""
