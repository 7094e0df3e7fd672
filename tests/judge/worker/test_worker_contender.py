"""Contenders in a worker: eager, ModelNew, kernel_function, and what is seen of them."""

import pytest
import torch

from judge.evaluate.buffers import refill
from judge.evaluate.session import CommandFailedError, Session
from judge.worker import messages as m
from tests.judge.worker.little import (
    LINEAR,
    LINEAR_NEW,
    POOL,
    SOFTMAX,
    SOFTMAX_TRITON,
    Given,
    lend,
    load_kernel,
    load_problem,
    make_inputs,
    outputs_of,
    run_oracle,
    share,
)


@pytest.mark.parametrize("source", [LINEAR, POOL, SOFTMAX])
def test_eager_agrees_with_the_oracle(evaluation: Session, source: str) -> None:
    worker, _ = load_problem(evaluation, source)
    given = make_inputs(evaluation, worker)
    (expected,), _ = run_oracle(evaluation, worker, given)
    worker.contender("eager")
    called = worker.call(given.arguments)
    assert 0 < called.seconds < worker.last_seconds
    (actual,) = outputs_of(evaluation, worker, called, "eager")
    assert actual.dtype == torch.float32
    assert torch.allclose(actual.double(), expected, rtol=1e-5, atol=1e-6)
    assert called.outputs[0].device == "cpu"


def test_a_triton_kernel_runs_in_the_interpreter_and_is_seen(evaluation: Session) -> None:
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    (expected,), _ = run_oracle(evaluation, problem, given)
    candidate, _ = load_kernel(evaluation, SOFTMAX_TRITON)
    called = candidate.call(share(candidate, given), poison=True, observe=True)
    (actual,) = outputs_of(evaluation, candidate, called, "out")
    assert torch.allclose(actual.double(), expected, rtol=1e-5, atol=1e-7)
    assert called.observed.triton_launches == {"softmax_rows": 1}
    assert not called.observed.aten
    assert not called.observed.patched


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_model_new_gets_the_state_dict(evaluation: Session, dtype: str | None) -> None:
    problem = load_problem(evaluation, LINEAR, seed=3, dtype=dtype)
    given = make_inputs(evaluation, problem[0])
    (expected,), _ = run_oracle(evaluation, problem[0], given)
    # Another seed than the problem's: only the state dict can make them agree.
    candidate, _ = load_kernel(
        evaluation, LINEAR_NEW, "ModelNew", problem=problem, seed=99, dtype=dtype
    )
    called = candidate.call(share(candidate, given), observe=True)
    (actual,) = outputs_of(evaluation, candidate, called, "out")
    assert actual.dtype == getattr(torch, dtype or "float32")
    tolerance = 0.01 if dtype else 1e-5
    assert torch.allclose(actual.double(), expected, rtol=tolerance, atol=tolerance)
    assert {"aten.addmm", "aten.mul", "aten.add"} <= set(called.observed.aten)
    assert "aten.t" not in called.observed.aten


def test_other_keys_are_made_up_for_by_the_seed(evaluation: Session) -> None:
    renamed = LINEAR_NEW.replace("self.linear", "self.packed")
    problem = load_problem(evaluation, LINEAR, seed=3)
    given = make_inputs(evaluation, problem[0])
    (expected,), _ = run_oracle(evaluation, problem[0], given)
    for seed, agrees in ((3, True), (4, False)):
        candidate, _ = load_kernel(
            evaluation, renamed, "ModelNew", problem=problem, seed=seed, prefix=f"for{seed}_"
        )
        called = candidate.call(share(candidate, given))
        (actual,) = outputs_of(evaluation, candidate, called, f"out{seed}_")
        assert torch.allclose(actual.double(), expected, rtol=1e-5, atol=1e-6) is agrees


WITH_PARAMETERS = """
import torch

def kernel_function(x, weight, bias, shift, scale):
    return torch.addmm(bias, x, weight.t()) * scale + shift
"""


def test_parameters_and_attributes_are_bound_by_name(evaluation: Session) -> None:
    problem = load_problem(evaluation, LINEAR)
    given = make_inputs(evaluation, problem[0])
    (expected,), _ = run_oracle(evaluation, problem[0], given)
    candidate, _ = load_kernel(evaluation, WITH_PARAMETERS, problem=problem)
    called = candidate.call(share(candidate, given))
    (actual,) = outputs_of(evaluation, candidate, called, "out")
    assert torch.allclose(actual.double(), expected, rtol=1e-5, atol=1e-6)


def _called_on(evaluation: Session, source: str, **options: bool) -> tuple[Given, m.Called, list]:
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    candidate, _ = load_kernel(evaluation, source)
    called = candidate.call(share(candidate, given), **options)
    return given, called, outputs_of(evaluation, candidate, called, "out")


FORGETS = """
import torch

def kernel_function(x):
    y = torch.empty_like(x)
    y[:, :-1] = torch.softmax(x, -1)[:, :-1]
    z = torch.empty(4, dtype=torch.int32)
    return y, [z], None
"""


def test_what_is_not_written_is_seen_in_poisoned_memory(evaluation: Session) -> None:
    _, _, (rows, numbers) = _called_on(evaluation, FORGETS, poison=True)
    assert rows[:, -1].isnan().all()
    assert not rows[:, :-1].isnan().any()
    assert (numbers == -1).all()


LAZY = """
import torch
from torch.utils._python_dispatch import return_and_correct_aliasing

class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x):
        return torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)

    def __init__(self, x):
        self.x = x

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        now = [torch.softmax(a.x, -1) if isinstance(a, Lazy) else a for a in args]
        return func(*now, **(kwargs or {}))

def kernel_function(x):
    return Lazy(x)
"""

ALIASED = """
def kernel_function(x):
    return x
"""


def test_outputs_that_are_computed_when_they_are_read_are_refused(evaluation: Session) -> None:
    with pytest.raises(CommandFailedError, match="output 0 is a Lazy, a subclass"):
        _called_on(evaluation, LAZY)


def test_outputs_that_are_the_inputs_come_out_wrong_after_a_refill(evaluation: Session) -> None:
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    before = given.tensors[0].clone()
    candidate, _ = load_kernel(evaluation, ALIASED)
    called = candidate.call(share(candidate, given))
    (early,) = outputs_of(evaluation, candidate, called, "early")
    assert torch.equal(early, before)
    for exported in given.exported:
        assert exported is not None
        refill(exported, seed=11)
    (late,) = outputs_of(evaluation, candidate, called, "late")
    assert not torch.allclose(late, before, rtol=0.1, atol=0.1)


PATCHES = """
import time
import torch

torch.allclose = lambda *args, **kwargs: True
time.perf_counter = lambda: 0.0
torch.cuda.Event.elapsed_time = lambda self, other: 1e-6
torch.backends.cudnn.allow_tf32 = True

def kernel_function(x):
    torch.set_float32_matmul_precision("high")
    return torch.softmax(x, -1)
"""


def test_replaced_functions_and_settings_are_named(evaluation: Session) -> None:
    _, called, _ = _called_on(evaluation, PATCHES, observe=True)
    assert called.observed.patched == [
        "time.perf_counter",
        "torch.cuda.Event.elapsed_time",
        "torch.allclose",
    ]
    assert called.observed.notes == ["TF32 was set to tf32 after ieee was declared"]
    assert called.seconds > 0  # by the clock that was there before
    assert "aten.softmax" in called.observed.aten


def test_launches_are_timed_and_their_outputs_fetched(evaluation: Session) -> None:
    problem, _ = load_problem(evaluation, SOFTMAX)
    sets = [make_inputs(evaluation, problem, seed, prefix=f"s{seed}_") for seed in (1, 2)]
    candidate, _ = load_kernel(evaluation, SOFTMAX_TRITON)
    arguments = [list(share(candidate, each)) for each in sets]
    order = [0, 1, 1, 0, 1]
    times = candidate.time(m.Time(sets=arguments, order=order, method="clock", keep=True))
    assert len(times.ms) == times.kept == 5
    assert min(times.ms) > 0
    assert sum(times.ms) / 1e3 < candidate.last_seconds
    out = lend(evaluation, candidate, "out", times.outputs[0])
    for launch, index in enumerate(order):
        candidate.fetch(["out"], launch=launch)
        assert torch.allclose(out.tensor, torch.softmax(sets[index].tensors[0], -1))
    candidate.drop(launches=True)
    with pytest.raises(CommandFailedError, match="launch 0 is not held"):
        candidate.fetch(["out"], launch=0)
    with pytest.raises(CommandFailedError, match="there is no input set 2"):
        candidate.time(m.Time(sets=arguments, order=[0, 2], method="clock"))


def test_the_cpu_has_neither_graphs_nor_events(evaluation: Session) -> None:
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    problem.contender("eager")
    told = problem.probe(given.arguments)
    assert (told.capturable, told.reason) == (False, "there is no CUDA device")
    with pytest.raises(CommandFailedError, match="needs a CUDA device"):
        problem.time(m.Time(sets=[given.arguments], order=[0], method="events"))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 3.0", "output 0 is a float, not a tensor"),
        ("return None", "it returned no tensor"),
        ("return [x, object()]", "output 1 is a object, not a tensor"),
        ("return x.to_sparse()", "output 0 is not a dense tensor"),
    ],
)
def test_outputs_that_are_no_tensors_are_refused(
    evaluation: Session, body: str, message: str
) -> None:
    with pytest.raises(CommandFailedError, match=message):
        _called_on(evaluation, f"def kernel_function(x):\n    {body}\n")


def test_outputs_are_fetched_contiguous_and_dropped(evaluation: Session) -> None:
    problem, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, problem)
    candidate, _ = load_kernel(evaluation, "def kernel_function(x):\n    return {'y': x.t()}\n")
    called = candidate.call(share(candidate, given))
    assert called.outputs[0].shape == (20, 8)
    (actual,) = outputs_of(evaluation, candidate, called, "out")
    assert torch.equal(actual, given.tensors[0].t())
    wrong = lend(evaluation, candidate, "wrong", m.TensorSpec(shape=(8, 20), dtype="float32"))
    with pytest.raises(CommandFailedError, match="the tensor is float32"):
        candidate.fetch([wrong.name], call=called.call)
    candidate.drop([called.call])
    with pytest.raises(CommandFailedError, match="is not held"):
        candidate.fetch(["out0"], call=called.call)
