"""Triton's interpreter: what kernels compute is told from what the host does, and what was seen."""

from pathlib import Path

import pytest

from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.result import Evaluation, Verdict
from judge.problem.source import ProblemFile
from judge.problem.variants import Sizes

PROBLEM = """
import torch

ROWS = 512
COLS = 8192


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
"""
KERNEL = """
import math
import threading

import numpy as np
import torch
import triton
import triton.language as tl

{decorator}
@triton.jit
def _softmax(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = -float("inf")
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        top = tl.maximum(top, tl.max(values, 0))
    total = 0.0
    start = 0
    while start < columns:
        at = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + at, mask=at < columns, other=-float("inf"))
        total {adds} tl.sum(tl.exp(values - top), 0)
        start += BLOCK
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns {beside}
        values = tl.load(x + row * columns + at, mask=inside, other=0.0)
        tl.store(y + row * columns + at, tl.exp(values - top) / total, mask=at < columns)


def kernel(x):
    y = torch.empty_like(x)
    _softmax[(x.shape[0],)](x, y, x.shape[1]{block})
    return y


def of_numpy(x):
    values = x.numpy()
    powers = np.exp(values - values.max(-1, keepdims=True))
    return torch.from_numpy(powers / powers.sum(-1, keepdims=True))


def of_torch(x):
    return torch.softmax(x, -1)


{after}
"""


def kernel(body, *, adds="+=", beside="", decorator="", block=", BLOCK=1024", after=""):
    after += "\ndef kernel_function(x):\n" + "".join(f"    {line}\n" for line in body)
    return KERNEL.format(adds=adds, beside=beside, decorator=decorator, block=block, after=after)


@pytest.fixture
def judge(interpreting, tmp_path: Path):
    def run(text: str, problem: str = PROBLEM) -> Evaluation:
        (tmp_path / "problem.py").write_text(problem)
        (tmp_path / "kernel.py").write_text(text)
        options = Options(interpret=True, timing=False, trust=True)
        return evaluate(
            tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting
        )

    return run


@pytest.mark.parametrize(
    "body",
    [
        ["return kernel(x)"],
        ["return kernel(x.t().contiguous().t().contiguous())"],
        ["out = torch.full_like(x, 7)", "out.copy_(kernel(x))", "return out.view(x.shape)"],
        ["rows = [kernel(row) for row in x.split(1 + x.shape[0] // 2)]", "return torch.cat(rows)"],
        ["kernel(x)", "scale = torch.ones(3)", "scale *= 2", "return kernel(x)"],
    ],
)
def test_a_host_that_allocates_views_and_moves_is_no_library(judge, body) -> None:
    found = judge(kernel(body))
    assert found.verdict is Verdict.CORRECT, found.reasons


HOSTS = {
    "numpy alone": ["return of_numpy(x)"],
    "numpy beside a kernel of no use": ["kernel(x)", "return of_numpy(x)"],
    "numpy in the kernel's output": [
        "y = kernel(torch.zeros_like(x))", "y.numpy()[:] = of_numpy(x).numpy()", "return y",
    ],
    "numpy before the kernel": [
        "y = torch.from_numpy(np.log(of_numpy(x).numpy()))", "return kernel(y)",
    ],
    "numpy after the kernel": ["return torch.from_numpy(kernel(x).numpy() * 1.0)"],
    "a thread": [
        "found = []", "thread = threading.Thread(target=lambda: found.append(of_torch(x)))",
        "thread.start()", "thread.join()", "kernel(x)", "return found[0]",
    ],
    "all calls but the first": [
        "global CALLS", "CALLS += 1", "return kernel(x) if CALLS == 1 else of_numpy(x)",
    ],
    "torch before the kernel": ["kernel(x)", "return kernel(torch.log_softmax(x, -1))"],
    "python": [
        "kernel(x)", "rows = [[math.exp(v - max(row)) for v in row] for row in x.tolist()]",
        "return torch.tensor([[v / sum(row) for v in row] for row in rows])",
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTS)
def test_what_no_triton_kernel_computes_is_a_library_s(judge, name: str) -> None:
    small = PROBLEM.replace("512", "3").replace("8192", "17")
    found = judge(kernel(HOSTS[name], after="CALLS = 0\n"), small)
    assert found.verdict is Verdict.LIBRARY, found.reasons


def test_a_loop_over_blocks_turns_more_than_once(judge) -> None:
    found = judge(kernel(["return kernel(x)"], adds="="))
    assert found.verdict is Verdict.WRONG
    (case,) = [each for each in found.cases if not each.passed and each.counted]
    assert case.constants["COLS"] > 2048
    assert case.constants["COLS"] % 1024


def test_a_loop_that_no_size_turns_twice_makes_the_verdict_inconclusive(judge) -> None:
    fixed = PROBLEM + "\nJUDGE = {'constants': {'COLS': {'max': 1000}}}\n"
    found = judge(kernel(["return kernel(x)"], adds="="), fixed)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "ran fewer than 2 iterations" in found.reasons[0]


def test_the_autotuner_takes_its_first_configuration_and_the_verdict_says_so(judge) -> None:
    configs = "[triton.Config({'BLOCK': n}, num_warps=4) for n in (64, 32)]"
    decorator = f"@triton.autotune({configs}, ['columns'])"
    found = judge(kernel(["return kernel(x)"], decorator=decorator, block=""))
    assert found.verdict is Verdict.CORRECT, found.reasons
    assert any("first of 2 configurations of _softmax: BLOCK: 64" in d for d in found.disclosures)


def test_a_host_may_choose_its_card_and_ask_how_large_it_is(judge) -> None:
    body = [
        "count = torch.cuda.get_device_properties(x.device).multi_processor_count",
        "with torch.cuda.device(x.device):",
        "    return torch.cat([kernel(part) for part in x.chunk(count)])",
    ]
    found = judge(kernel(body))
    assert found.verdict is Verdict.CORRECT, found.reasons
    assert any("a GPU with 4 multiprocessors" in each for each in found.disclosures)


def test_an_access_beside_a_tensor_is_wrong_though_its_values_are_not(judge) -> None:
    found = judge(kernel(["return kernel(x)"], beside="+ 1"))
    assert found.verdict is Verdict.WRONG
    assert "reads right past the end of a tensor" in found.reasons[0]


def test_enlarged_shapes_end_in_a_part_of_a_block() -> None:
    problem = ProblemFile.parse(PROBLEM)
    for block in (32, 1024):
        shapes, left_out = Sizes(problem, 1 << 16).enlarge(block)
        assert not left_out
        assert list(shapes) == ["COLS", "ROWS"]
        for name, shape in shapes.items():
            assert shape.constants[name] > 2 * block
            assert shape.constants[name] % block
    shapes, left_out = Sizes(problem, 1 << 16).enlarge(1 << 14)
    assert (shapes, left_out) == ({}, ["COLS", "ROWS"])


COLUMNS = """
import torch
import triton
import triton.language as tl


@triton.jit
def _double(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id({axis}) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + at, mask=at < columns)
    tl.store(y + row * columns + at, values * {factor}, mask=at < columns)


def kernel_function(x):
    {guard}
    y = torch.empty_like(x)
    _double[(x.shape[0], triton.cdiv(x.shape[1], 1024))](x, y, x.shape[1], BLOCK=1024)
    return y
"""
DOUBLE = (
    PROBLEM.replace("torch.softmax(x, dim=-1)", "2 * x")
    .replace("ROWS = 512", "ROWS = 1")
    .replace("COLS = 8192", "COLS = 96")
)


def columns(axis: int = 1, factor: float = 2, guard: str = "") -> str:
    return COLUMNS.format(axis=axis, factor=factor, guard=guard)


def test_a_wrong_grid_axis_shows_where_a_dimension_takes_several_programs(judge) -> None:
    found = judge(columns(axis=2), DOUBLE)
    assert found.verdict is Verdict.WRONG
    (case,) = [each for each in found.cases if not each.passed and each.counted]
    assert case.constants["COLS"] > 1024


def test_a_kernel_may_decline_dimensions_longer_than_its_loops_want(judge) -> None:
    guard = "if x.shape[1] > 1000: raise ValueError('rows of up to 1000')"
    found = judge(columns(guard=guard), DOUBLE)
    assert found.verdict is Verdict.CORRECT, found.reasons


@pytest.mark.parametrize(("factor", "verdict"), [(2, Verdict.INCONCLUSIVE), (2.125, Verdict.WRONG)])
def test_what_is_wrong_in_float32_too_is_not_the_interpreters_fault(
    judge, factor: float, verdict: Verdict
) -> None:
    narrow = DOUBLE.replace("torch.rand(ROWS, COLS)", "torch.rand(ROWS, COLS).bfloat16()")
    found = judge(columns(factor=factor), narrow)
    assert found.verdict is verdict, found.reasons
    if verdict is Verdict.WRONG:
        assert found.reasons[0].startswith("in float32: ")


def test_a_kernel_that_converts_to_bfloat16_itself_is_not_called_wrong_here(judge) -> None:
    text = columns().replace("values * 2,", "(values.to(tl.bfloat16) * 2).to(tl.float32),")
    found = judge(text, DOUBLE)
    assert found.verdict is Verdict.INCONCLUSIVE, found.reasons
    assert "converts to bfloat16" in found.reasons[0]


def test_a_call_that_takes_too_long_at_a_long_shape_does_not_count(judge) -> None:
    loop = "    for _ in range(0, columns * columns, 512):\n        tl.load(x)\n"
    begins = "    at = tl.program_id(1)"
    quadratic = columns().replace(begins, loop + begins)
    found = judge(quadratic, DOUBLE)
    assert found.verdict is Verdict.CORRECT, found.reasons
    assert [case.constants for case in found.cases if "too long" in (case.why_not or "")]


QUANTIZE = """
import torch

ROWS = 40
COLS = 96


class Model(torch.nn.Module):
    def forward(self, x):
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
        return (x / scale).round().to(torch.int8), scale


def get_inputs():
    return [torch.randn(ROWS, COLS)]


def get_init_inputs():
    return []
"""
QUANTIZED = """
import torch
import triton
import triton.language as tl


@triton.jit
def _quantize(x, codes, scales, columns, BLOCK: tl.constexpr):
    row, at = tl.program_id(0), tl.arange(0, BLOCK)
    value = tl.load(x + row * columns + at, mask=at < columns, other=0.0).to(tl.float32)
    value *= tl.rsqrt(tl.sum(value * value, 0) / columns + 1e-5)
    scale = tl.maximum(tl.max(tl.abs(value), 0), 1e-6) / 127
    code = value / scale
    {rounding}
    tl.store(codes + row * columns + at, code.to(tl.int8), mask=at < columns)
    tl.store(scales + row, scale.to(scales.dtype.element_ty))


def kernel_function(x):
    rows, columns = x.shape
    codes = torch.empty(x.shape, dtype=torch.int8, device=x.device)
    scales = torch.empty((rows, 1), dtype=x.dtype, device=x.device)
    _quantize[(rows,)](x, codes, scales, columns, BLOCK=triton.next_power_of_2(columns))
    return codes, scales
"""


@pytest.mark.parametrize(
    ("rounding", "verdicts"),
    [
        ("code = (code + 12582912.0) - 12582912.0", {Verdict.CORRECT}),
        # Cut off: half of all codes are off by one.
        ("code = code * 1.0", {Verdict.WRONG, Verdict.INCONCLUSIVE}),
        ("code = tl.where(at == 0, 0.0, (code + 12582912.0) - 12582912.0)",
         {Verdict.WRONG, Verdict.INCONCLUSIVE}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_codes_of_a_quantization_may_be_off_where_a_value_lies_halfway(
    interpreting, tmp_path: Path, rounding: str, verdicts: set[Verdict], dtype: str
) -> None:
    (tmp_path / "problem.py").write_text(QUANTIZE)
    (tmp_path / "kernel.py").write_text(QUANTIZED.replace("{rounding}", rounding))
    options = Options(device="cpu", interpret=True, timing=False, trust=True, dtype=dtype)
    found = evaluate(tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting)
    assert found.verdict in verdicts, (found.reasons, found.cases)
