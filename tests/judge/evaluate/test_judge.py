"""End to end on the CPU: honest kernels are told from wrong ones, and wrong ones from cheats."""

from collections import Counter
from pathlib import Path

import pytest

from judge.evaluate import contest
from judge.evaluate.judge import evaluate
from judge.evaluate.options import Options
from judge.evaluate.render import render
from judge.evaluate.result import Evaluation, Verdict
from judge.problem.forms import as_kernel
from kb.errors import KbError
from kb.printable import WIDTH

PROBLEM = """
import torch
from torch import nn

ROWS = 6
COLS = 37


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(columns) + 0.5)

    def forward(self, x):
        return (x * self.weight).sum(-1)


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return [COLS]
"""

KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _dot(x_ptr, w_ptr, out_ptr, columns, read, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    inside = offsets < read
    x = tl.load(x_ptr + row * columns + offsets, mask=inside, other=0)
    w = tl.load(w_ptr + offsets, mask=inside, other=0)
    tl.store(out_ptr + row, tl.sum(x * w))


def run(x, weight, read=None):
    rows, columns = x.shape
    out = torch.empty((rows,), dtype=x.dtype, device=x.device)
    read = columns if read is None else read
    _dot[(rows,)](x, weight, out, columns, read, BLOCK=triton.next_power_of_2(columns))
    return out

"""
RIGHT = "def kernel_function(x, weight):\n    return run(x, weight)\n"

POOL = """
import torch

ROWS = 6
COLS = 40


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.max_pool1d(x.unsqueeze(0), 4, 4).squeeze(0)


def get_inputs():
    return [torch.rand(ROWS, COLS)]


def get_init_inputs():
    return []
"""
POOL_KERNEL = """
import torch
import triton
import triton.language as tl


@triton.jit
def _pool(x_ptr, out_ptr, columns, taps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    out = tl.arange(0, BLOCK)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for tap in range(taps):
        inside = out < columns // 4
        x = tl.load(x_ptr + row * columns + out * 4 + tap, mask=inside, other=0)
        best = tl.maximum(best, x * SCALE)
    tl.store(out_ptr + row * (columns // 4) + out, best, mask=out < columns // 4)


def kernel_function(x):
    rows, columns = x.shape
    out = torch.empty((rows, columns // 4), dtype=x.dtype, device=x.device)
    _pool[(rows,)](x, out, columns, TAPS, BLOCK=triton.next_power_of_2(columns // 4))
    return out
"""


def pool_kernel(taps=4, scale="1.0"):
    return POOL_KERNEL.replace("TAPS", str(taps)).replace("SCALE", scale)


@pytest.fixture
def judge(interpreting, tmp_path):
    def run(
        kernel: str, problem: str = PROBLEM, *, name: str = "kernel.py", **options
    ) -> Evaluation:
        (tmp_path / "problem.py").write_text(problem)
        (tmp_path / name).write_text(kernel)
        found = evaluate(
            tmp_path / "problem.py",
            tmp_path / name,
            Options(interpret=True, timing=False, trust=True, **options),
            zygote=interpreting,
        )
        printed = found.model_dump_json()
        assert Evaluation.model_validate_json(printed).model_dump_json() == printed
        assert all(len(line) <= WIDTH for line in render(found).splitlines())
        return found

    return run


def wrong(found: Evaluation) -> str:
    assert found.verdict is Verdict.WRONG, found.reasons
    return " ".join(found.reasons)


def cheat(found: Evaluation) -> str:
    assert found.verdict is Verdict.CHEAT, found.reasons
    return " ".join(found.reasons)


def test_a_right_kernel_is_correct_and_the_judge_could_have_told_otherwise(judge):
    found = judge(KERNEL + RIGHT)
    assert (found.verdict, found.reasons) == (Verdict.CORRECT, ())
    assert (found.oracle, found.language, found.interpreted) == ("float64", "triton", True)
    counted = [case for case in found.cases if case.counted]
    assert all(case.passed for case in counted)
    assert {"full", "variant"} <= {case.shape for case in counted}
    assert {"given", "normal", "large", "tiny", "zero", "negative"} <= {c.kind for c in counted}
    assert len({case.seed_index for case in found.cases}) >= 5
    assert {"zeros", "mean", "truncate", "sparse"} == {check.mutation for check in found.power}
    assert all(check.rejected_by for check in found.power)
    assert not found.timings
    assert found.sandbox


def test_a_model_of_its_own_is_given_the_problem_s_parameters(judge):
    kernel = """
class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(columns))

    def forward(self, x):
        return run(x, self.weight)
"""
    assert judge(KERNEL + kernel).verdict is Verdict.CORRECT


def test_what_is_learned_cannot_be_left_out_although_it_begins_as_one(judge):
    problem = PROBLEM.replace("torch.rand(columns) + 0.5", "torch.ones(columns)")
    assert judge(KERNEL + RIGHT, problem).verdict is Verdict.CORRECT
    lazy = "def kernel_function(x):\n    return run(x, torch.ones_like(x[0]))\n"
    found = judge(KERNEL + lazy, problem)
    assert "elements have errors of" in wrong(found)
    assert any("got random values: weight" in note for note in found.disclosures)


def test_off_by_one_at_the_tail_is_wrong_and_shown(judge):
    kernel = "def kernel_function(x, weight):\n    return run(x, weight, x.shape[1] - 1)\n"
    found = judge(KERNEL + kernel)
    assert "elements have errors of" in wrong(found)
    case = next(case for case in found.cases if not case.passed)
    example = case.counterexamples[0]
    assert example.got != example.expected
    assert "not" in wrong(found)


def test_rows_that_are_not_written_are_wrong(judge):
    kernel = KERNEL.replace("_dot[(rows,)]", "_dot[(rows - 1,)]") + RIGHT
    assert wrong(judge(kernel))


def test_a_constant_output_is_wrong_and_said_to_be_constant(judge):
    kernel = "def kernel_function(x, weight):\n    return torch.full_like(x[:, 0], 9.25)\n"
    rows = PROBLEM + 'JUDGE = {"constants": {"ROWS": {"fixed": True}}}\n'
    assert "the output is constant" in wrong(judge("import torch\n" + kernel, rows))


def test_a_dropped_tap_is_wrong_and_a_full_window_correct(judge):
    assert judge(pool_kernel(), POOL).verdict is Verdict.CORRECT
    assert wrong(judge(pool_kernel(taps=3), POOL))


def test_where_nothing_is_rounded_the_smallest_difference_is_wrong(judge):
    found = judge(pool_kernel(scale="1.0000001"), POOL)
    assert "although no rounding is needed" in wrong(found)
    assert all(case.bit_exact_required for case in found.cases if case.counted)


def test_a_cached_output_is_a_cheat(judge):
    kernel = """
_cache = {}


def kernel_function(x, weight):
    if x.data_ptr() not in _cache:
        _cache[x.data_ptr()] = run(x, weight)
    return _cache[x.data_ptr()]
"""
    assert "outputs of an earlier call" in cheat(judge(KERNEL + kernel))


def test_writing_the_inputs_is_a_cheat(judge):
    kernel = """
def kernel_function(x, weight):
    out = run(x, weight)
    x.add_(1)
    return out
"""
    assert "input 'x'" in cheat(judge(KERNEL + kernel))


def test_writing_a_parameter_is_a_cheat(judge):
    kernel = """
def kernel_function(x, weight):
    out = run(x, weight)
    weight.mul_(2)
    return out
"""
    assert "a parameter of the model" in cheat(judge(KERNEL + kernel))


def test_an_output_that_is_computed_when_it_is_read_is_a_cheat(judge):
    kernel = """
_pending = {}
_copy = torch.Tensor.copy_


def _late(self, source, non_blocking=False):
    kept = _pending.pop(source.data_ptr(), None)
    return _copy(self, source if kept is None else run(*kept), non_blocking)


torch.Tensor.copy_ = _late


def kernel_function(x, weight):
    out = torch.empty((x.shape[0],), dtype=x.dtype, device=x.device)
    _pending[out.data_ptr()] = (x, weight)
    return out
"""
    assert cheat(judge(KERNEL + kernel))


def test_an_output_that_a_thread_writes_later_is_wrong(judge):
    kernel = """
import threading
import time


def kernel_function(x, weight):
    out = torch.empty((x.shape[0],), dtype=x.dtype, device=x.device)

    def later():
        time.sleep(0.2)
        out.copy_((x * weight).sum(-1))

    threading.Thread(target=later).start()
    return out
"""
    assert judge("import torch\n" + kernel).verdict in (Verdict.CHEAT, Verdict.WRONG)


def test_a_view_of_the_input_is_a_cheat_unless_the_problem_returns_one(judge):
    copies = POOL.replace(
        "torch.nn.functional.max_pool1d(x.unsqueeze(0), 4, 4).squeeze(0)", "x.t().contiguous()"
    )
    kernel = "import torch\n\n\ndef kernel_function(x):\n    return x.t()\n"
    assert "before the inputs change" in cheat(judge(kernel, copies))
    views = copies.replace(".contiguous()", "")
    assert judge(kernel, views).verdict in (Verdict.CORRECT, Verdict.LIBRARY, Verdict.INCONCLUSIVE)


def test_a_kernel_need_not_take_what_the_problem_leaves_out(judge):
    optional = POOL.replace("def forward(self, x):", "def forward(self, x, start=None, end=None):")
    assert judge(pool_kernel(), optional).verdict is Verdict.CORRECT


def test_a_shape_that_the_problem_cannot_have_is_not_tried_with_every_kind_of_values(judge):
    # Saturated results hide mistakes, so that every kind of values is asked for.
    saturated = "torch.sigmoid(100 + (x * self.weight).sum(-1))"
    problem = PROBLEM.replace("(x * self.weight).sum(-1)", saturated).replace(
        "        return", "        assert x.shape[-1] == 37, 'another width'\n        return"
    )
    kernel = "def kernel_function(x, weight):\n    return torch.sigmoid(100 + run(x, weight))\n"
    found = judge(KERNEL + kernel, problem)
    failed = Counter(
        str(each.constants) for each in found.cases if "another width" in (each.why_not or "")
    )
    assert 0 < max(failed.values()) <= 2


def test_half_precision_inside_float32_is_wrong_with_a_hint(judge):
    kernel = "def kernel_function(x, weight):\n    return run(x.half().float(), weight)\n"
    found = judge(KERNEL + kernel, PROBLEM + 'JUDGE = {"constants": {"ROWS": {"fixed": True}}}\n')
    assert "typical of products in TF32 or float16" in wrong(found)


def test_declining_other_shapes_is_specialised_and_raising_at_the_given_one_wrong(judge):
    kernel = """
def kernel_function(x, weight):
    if x.shape != (6, 37):
        raise ValueError("only 6 x 37")
    return run(x, weight)
"""
    found = judge(KERNEL + kernel)
    assert found.verdict is Verdict.SPECIALISED
    assert "only 6 x 37" in found.reasons[0]
    raises = "def kernel_function(x, weight):\n    raise ValueError('no')\n"
    assert "it raises ValueError: no" in wrong(judge(KERNEL + raises))


def test_a_library_s_work_is_disclosed(judge):
    kernel = "import torch\n\n\ndef kernel_function(x, weight):\n    return torch.mv(x, weight)\n"
    found = judge(kernel)
    assert found.verdict is Verdict.LIBRARY
    assert "aten.mv" in found.reasons[0]


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        ("run(x, weight)[:, None]", "its output has shape"),
        ("run(x, weight).double()", "dtype float64 instead of float32"),
        ("(run(x, weight), run(x, weight))", "2 outputs instead of 1"),
    ],
)
def test_wrong_shape_dtype_and_number_of_outputs_are_wrong(judge, returned, said):
    kernel = f"def kernel_function(x, weight):\n    return {returned}\n"
    assert said in wrong(judge(KERNEL + kernel))


def test_a_kernel_that_cannot_be_loaded_is_wrong(judge):
    assert "cannot be used" in wrong(judge("def kernel_function(:"))
    assert "cannot be loaded" in wrong(judge("import no_such_module\n" + KERNEL + RIGHT))


def test_a_kernel_whose_process_ends_is_wrong(judge):
    kernel = "import os\n\n\ndef kernel_function(x, weight):\n    os._exit(0)\n"
    assert "its process ended" in wrong(judge(kernel))


def test_a_problem_on_which_nothing_can_be_told_is_inconclusive(judge):
    unused = PROBLEM.replace("(x * self.weight).sum(-1)", "(x * 0.0).sum(-1) + self.weight.sum()")
    kernel = """
import torch


def kernel_function(x, weight):
    return weight.sum().expand(x.shape[0]).contiguous()
"""
    found = judge(kernel, unused)
    assert found.verdict in (Verdict.INCONCLUSIVE, Verdict.LIBRARY)


def test_random_problems_do_not_count(judge):
    noisy = PROBLEM.replace(
        "(x * self.weight).sum(-1)", "(x * self.weight).sum(-1) + torch.rand(x.shape[0])"
    )
    found = judge(KERNEL + RIGHT, noisy)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "eager itself is" in found.reasons[0]


def test_a_random_problem_of_one_shape_does_not_count_for_its_large_values(judge):
    """There the random part is too small to be seen, and nothing else of the result counts."""
    noisy = PROBLEM.replace(
        "(x * self.weight).sum(-1)", "(x * self.weight).sum(-1) + torch.rand(x.shape[0])"
    )
    found = judge(KERNEL + RIGHT, noisy.replace("ROWS, COLS", "6, 37"))
    assert found.verdict is Verdict.INCONCLUSIVE, found.cases
    assert "eager itself is" in found.reasons[0]


def test_a_problem_whose_output_depends_on_earlier_calls_is_inconclusive_and_says_so(judge):
    counting = PROBLEM.replace(
        "return (x", "self.weight += 0.01 * x.mean(0)\n        return (x"
    ).replace("nn.Parameter(", "torch.nn.Buffer(")
    found = judge(KERNEL + RIGHT, counting)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "depends on earlier calls, each of which changes weight" in found.reasons[0]


def test_shapes_that_are_none_of_the_problem_s_do_not_count(judge):
    checks = PROBLEM + "\nif (ROWS, COLS) != (6, 37):\n    raise ValueError('no such shape')\n"
    found = judge(KERNEL + RIGHT, checks)
    assert found.verdict is Verdict.CORRECT
    assert {case.shape for case in found.cases if case.counted} == {"full"}
    dies = PROBLEM.replace(
        "class Model", "import os\n(ROWS, COLS) == (6, 37) or os._exit(1)\nclass Model"
    )
    assert judge(KERNEL + RIGHT, dies).verdict is Verdict.CORRECT


def test_the_problem_s_own_faults_are_errors(judge, tmp_path):
    with pytest.raises(KbError, match="ZeroDivisionError"):
        judge(KERNEL + RIGHT, PROBLEM + "\n1 / 0\n")
    with pytest.raises(KbError, match="cannot read"):
        evaluate(Path("/no/such/problem.py"), tmp_path / "kernel.py")


def test_a_right_kernel_is_timed_in_fresh_processes_beside_others(interpreting, tmp_path):
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL + RIGHT)
    (tmp_path / "other").mkdir()
    for name, columns in (("kernel.py", "None"), ("wrong.py", "x.shape[1] - 1")):
        kernel = f"def kernel_function(x, weight):\n    return run(x, weight, {columns})\n"
        (tmp_path / "other" / name).write_text(KERNEL + kernel)
    found = evaluate(
        tmp_path / "problem.py",
        tmp_path / "kernel.py",
        Options(
            device="cpu",
            trust=True,
            baselines=("eager",),
            against=(tmp_path / "other" / "kernel.py", tmp_path / "other" / "wrong.py"),
        ),
        zygote=interpreting,
    )
    assert found.verdict is Verdict.CORRECT, found.reasons
    names = ["candidate", "1:kernel.py", "eager"]
    assert [each.contender for each in found.timings] == names
    assert all(0 < each.p10_ms <= each.median_ms <= each.p90_ms for each in found.timings)
    assert [(each.of, each.over) for each in found.ratios] == [
        ("candidate", "1:kernel.py"),
        ("candidate", "eager"),
    ]
    assert any("2:wrong.py is not timed" in text for text in found.disclosures)
    assert all(len(line) <= WIDTH for line in render(found).splitlines())


def test_a_baseline_that_compiles_for_too_long_is_left_out_and_named(
    interpreting, tmp_path, monkeypatch
):
    monkeypatch.setattr(contest, "_LEAST_COMPILE_S", 0.01)
    problem, kernel = tmp_path / "problem.py", tmp_path / "kernel.py"
    problem.write_text(PROBLEM)
    kernel.write_text(KERNEL + RIGHT)
    forms = ("eager", "compile")
    options = Options(device="cpu", trust=True, baselines=forms, quick=True, compile_seconds=0.0)
    found = evaluate(problem, kernel, options, zygote=interpreting)
    assert [each.contender for each in found.timings] == ["candidate", "eager"]
    assert any("compile is not timed: " in text for text in found.disclosures)


def test_a_kernel_that_is_right_only_at_first_is_not_right(interpreting, tmp_path):
    kernel = """
_calls = [0]


def kernel_function(x, weight):
    _calls[0] += 1
    return run(x, weight, None if _calls[0] < 12 else 1)
"""
    (tmp_path / "problem.py").write_text(PROBLEM)
    (tmp_path / "kernel.py").write_text(KERNEL + kernel)
    options = Options(device="cpu", trust=True, baselines=("eager",))
    problem, candidate = tmp_path / "problem.py", tmp_path / "kernel.py"
    found = evaluate(problem, candidate, options, zygote=interpreting)
    assert found.verdict in (Verdict.WRONG, Verdict.CHEAT)


RECURRENT = """
import torch
from torch import nn

ROWS = 6
COLS = 16


class Model(nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.cell = nn.GRU(columns, columns, batch_first=True)
        self.kept = torch.rand(1, ROWS, columns)

    def forward(self, x):
        state = torch.FIRST(1, x.shape[0], x.shape[2])
        return self.cell(x, state + self.kept[:, : x.shape[0]])[0]


def get_inputs():
    return [torch.rand(ROWS, 5, COLS)]


def get_init_inputs():
    return [COLS]
"""


@pytest.mark.parametrize("first", ["zeros", "randn"])
def test_what_a_problem_creates_itself_has_the_dtype_that_was_asked_for(
    interpreting, tmp_path, first
):
    """A first state in float32 would make PyTorch's recurrent networks refuse a bfloat16 input."""
    problem = RECURRENT.replace("FIRST", first)
    (tmp_path / "problem.py").write_text(problem)
    (tmp_path / "kernel.py").write_text(as_kernel(problem, "eager"))
    options = Options(device="cpu", trust=True, dtype="bfloat16", baselines=("eager",))
    found = evaluate(tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting)
    assert found.verdict is Verdict.LIBRARY, found.reasons
    assert [each.contender for each in found.timings] == ["candidate", "eager"]
    assert any(case.passed for case in found.cases) == (first == "zeros")
    assert not any("failed while it was timed" in text for text in found.disclosures)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("torch.FIRST(1, x.shape[0], x.shape[2])",
         "torch.zeros(1, x.shape[0], x.shape[2], dtype=torch.float64)", "same dtype"),
        ("ROWS, 5, COLS", "ROWS, 5 + int(torch.randint(400, ())), COLS", "of other sizes"),
    ],
)  # fmt: skip
def test_a_problem_that_cannot_be_timed_says_why(interpreting, tmp_path, old, new, said):
    problem = RECURRENT.replace(old, new).replace("FIRST", "zeros")
    (tmp_path / "problem.py").write_text(problem)
    (tmp_path / "kernel.py").write_text(as_kernel(problem, "eager"))
    options = Options(device="cpu", trust=True, dtype="bfloat16", baselines=("eager",))
    found = evaluate(tmp_path / "problem.py", tmp_path / "kernel.py", options, zygote=interpreting)
    assert found.verdict is Verdict.LIBRARY
    assert not found.timings
    assert said in found.reasons[0]
    fails = said == "same dtype"
    assert any("fails in bfloat16 (it may run without" in t for t in found.disclosures) == fails
