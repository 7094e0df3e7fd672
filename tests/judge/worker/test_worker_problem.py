"""The problem worker: what it tells of a problem, the inputs it makes, the oracle it runs."""

import pytest
import torch

from judge.evaluate.session import CommandFailedError, Session
from judge.worker import messages as m
from judge.worker.problem import LoadedProblem
from tests.judge.worker.little import (
    LINEAR,
    POOL,
    SOFTMAX,
    lend,
    load_problem,
    make_inputs,
    run_oracle,
)

GIVEN = m.ValueKind.GIVEN


def test_a_problem_tells_its_tensors_attributes_and_arguments(evaluation: Session) -> None:
    _, told = load_problem(evaluation, LINEAR)
    assert [(p.name, p.tensor.shape, p.kind) for p in told.parameters] == [
        ("shift", (4,), "buffer"),
        ("linear.weight", (4, 16), "parameter"),
        ("linear.bias", (4,), "parameter"),
    ]
    assert told.attributes["scale"] == 2.0
    assert told.attributes["linear.in_features"] == told.attributes["features"] == 16
    assert told.init_inputs == [16, 4]
    assert told.input_names == ["x"]


ALIKE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(8)
        self.scale = nn.Parameter(torch.full((3,), -2.0))
        self.one = nn.Parameter(torch.ones(1))
        self.linear = nn.Linear(8, 4)
        self.register_buffer("mask", torch.ones(8))
        self.steps = torch.zeros(5)

    def forward(self, x):
        return self.linear(self.norm(x) * self.mask) * self.one + self.scale.sum()


def get_inputs():
    return [torch.rand(6, 8)]


def get_init_inputs():
    return []
"""


HOST = {"device": "cpu", "dtype": None, "precision": "ieee"}


def test_what_is_learned_and_alike_throughout_is_drawn_and_nothing_else(tmp_path) -> None:
    one, again, other = (
        LoadedProblem(
            m.LoadProblem(source=ALIKE, module_name="alike", device="cpu", seed=seed), tmp_path
        )
        for seed in (3, 3, 4)
    )
    assert one.redrawn == [
        "scale", "norm.weight", "norm.bias", "norm.running_mean", "norm.running_var",
    ]  # fmt: skip
    values, same, else_ = (
        {described.name: tensor for described, tensor in each.tensors()}
        for each in (one, again, other)
    )
    for name in one.redrawn:
        assert values[name].unique().numel() > 1
        assert torch.equal(values[name], same[name])
        assert not torch.equal(values[name], else_[name])
    assert bool((values["norm.running_var"] >= 0.5).all())
    assert bool((values["norm.bias"] > 0).all())
    assert bool((values["scale"] <= -1).all())
    for name, constant in (("one", 1.0), ("mask", 1.0), ("steps", 0.0)):
        assert bool((values[name] == constant).all())
    assert (
        LoadedProblem(
            m.LoadProblem(source=LINEAR, module_name="l", device="cpu", seed=3), tmp_path
        ).redrawn
        == []
    )


def test_tuples_in_constructor_arguments_are_kept_apart_from_lists(evaluation: Session) -> None:
    _, told = load_problem(evaluation, POOL)
    assert told.init_inputs == [{"$tuple": [3, 3]}, 2]
    assert told.attributes["pool.padding"] == 1


def test_inputs_depend_on_the_seed_alone(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, LINEAR)
    one = make_inputs(evaluation, worker, 1, prefix="a").tensors[0]
    other = make_inputs(evaluation, worker, 2, prefix="b").tensors[0]
    again = make_inputs(evaluation, worker, 1, prefix="c").tensors[0]
    assert torch.equal(one, again)
    assert not torch.equal(one, other)
    torch.manual_seed(1)
    assert torch.equal(one, torch.rand(6, 16))


def test_values_that_are_no_tensors_are_passed_on(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, POOL)
    image, offset = worker.describe_inputs(1)
    assert image.tensor == m.TensorSpec(shape=(8, 2, 9, 9), dtype="float32")
    assert (offset.name, offset.tensor, offset.value) == ("offset", None, 3)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_kinds_have_the_contents_they_promise(evaluation: Session, dtype: str) -> None:
    worker, _ = load_problem(evaluation, SOFTMAX, dtype=dtype)
    made = {
        kind: make_inputs(evaluation, worker, 1, kind, kind.value).tensors[0]
        for kind in m.ValueKind
    }
    assert {tensor.dtype for tensor in made.values()} == {getattr(torch, dtype)}
    wide = {kind: tensor.double() for kind, tensor in made.items()}
    assert ((wide[GIVEN] >= 0) & (wide[GIVEN] <= 1)).all()
    assert abs(wide[m.ValueKind.NORMAL].mean()) < 0.3 < wide[m.ValueKind.NORMAL].std()
    largest = wide[m.ValueKind.LARGE].abs().max()
    assert largest > (50 if dtype == "float16" else 1e11)
    tiny = wide[m.ValueKind.TINY].abs()
    assert 0 < tiny.max() < 0.02
    # The product of two is still a normal number.
    assert tiny.max() ** 2 >= torch.finfo(getattr(torch, dtype)).tiny
    assert (wide[m.ValueKind.ZERO] == 0).all()
    assert torch.equal(wide[m.ValueKind.NEGATIVE], -wide[GIVEN])
    infinite = wide[m.ValueKind.INF]
    assert 1 <= infinite.isposinf().sum() <= 2
    assert 1 <= infinite.isneginf().sum() <= 2
    assert not infinite.isnan().any()


INDEXED = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self, rows, width):
        super().__init__()
        self.table = nn.Embedding(rows, width)

    def forward(self, at, weights, flag):
        return self.table(at) * weights if flag else self.table(at)

def get_inputs():
    count = int(torch.randint(3, 5, ()).item())  # a size that only a real tensor tells
    return [torch.randint(0, 10, (count,)), torch.rand(count, 1), True]

def get_init_inputs():
    return [10, 4]
"""


def test_integers_stay_and_sizes_may_depend_on_values(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, INDEXED, dtype="bfloat16")
    given = make_inputs(evaluation, worker, 5, m.ValueKind.LARGE)
    at, weights = given.tensors
    assert at.dtype == torch.int64
    assert ((at >= 0) & (at < 10)).all()
    assert weights.dtype == torch.bfloat16
    assert weights.abs().max() > 1e9
    (result,), _ = run_oracle(evaluation, worker, given)
    assert result.shape == (len(at), 4)


def test_a_variant_replaces_the_text_and_keeps_device_and_dtype(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, LINEAR, dtype="bfloat16")
    told = worker.use_variant(LINEAR.replace("M, N, K = 6, 16, 4", "M, N, K = 3, 8, 2"))
    assert told.parameters[1].tensor == m.TensorSpec(shape=(2, 8), dtype="bfloat16")
    assert worker.describe_inputs(0)[0].tensor == m.TensorSpec(shape=(3, 8), dtype="bfloat16")


def test_exported_parameters_are_those_of_the_seed(evaluation: Session) -> None:
    worker, told = load_problem(evaluation, LINEAR, seed=7)
    lent = [
        lend(evaluation, worker, f"p{index}", each.tensor)
        for index, each in enumerate(told.parameters)
    ]
    worker.export_parameters([each.name for each in lent])
    torch.manual_seed(7)
    layer = torch.nn.Linear(16, 4)
    assert torch.equal(lent[1].tensor, layer.weight.detach())
    assert torch.equal(lent[0].tensor, torch.rand(4))


def test_the_oracle_computes_in_float64(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, SOFTMAX, dtype="bfloat16")
    given = make_inputs(evaluation, worker)
    (result,), told = run_oracle(evaluation, worker, given)
    assert told.precision == "float64"
    assert told.outputs == [m.TensorSpec(shape=(8, 20), dtype="float64")]
    assert torch.equal(result, torch.softmax(given.tensors[0].double(), -1))


REMEMBERS = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(5))
        self.calls = 0

    def forward(self, x):
        {body}


def get_inputs():
    return [torch.rand(3, 5)]


def get_init_inputs():
    return []
"""


@pytest.mark.parametrize(
    ("body", "carried"),
    [
        ("self.seen = torch.maximum(self.seen, x.amax(0)); return x / self.seen", ["seen"]),
        ("self.seen.mul_(0.9).add_(x.mean(0)); return x - self.seen", ["seen"]),
        ("self.calls += 1; return x * self.calls", ["calls"]),
        ("self.seen = torch.cat([self.seen, x.mean(0)]); return x * self.seen.sum()", ["seen"]),
        (
            "self.seen = torch.cat([self.seen] * 2); return x + self.seen.view(2, 5)[:1]",
            ["seen"],
        ),
        ("self.seen.mul_(0.9).add_(x.mean(0)); return x - x.mean(0)", []),
        ("self.calls += 1; return x + self.seen", []),
        ("self.calls += 1; return x * torch.rand(5)", []),
    ],
)
def test_what_a_call_leaves_for_the_next_one_is_named(
    evaluation: Session, body: str, carried: list[str]
) -> None:
    worker, _ = load_problem(evaluation, REMEMBERS.format(body=body))
    given = make_inputs(evaluation, worker)
    worker.contender("eager")
    worker.call(list(given.arguments))
    _, told = run_oracle(evaluation, worker, given)
    assert told.carried == carried


CREATES = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4, affine=False)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        third = torch.full((4,), 1 / 3)
        return self.norm(x) + third + self.calls, self.norm.running_mean

def get_inputs():
    return [torch.rand(8, 4)]

def get_init_inputs():
    return []
"""


def test_every_oracle_starts_from_the_same_state(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, CREATES)
    given = make_inputs(evaluation, worker)
    first, _ = run_oracle(evaluation, worker, given, "first")
    second, _ = run_oracle(evaluation, worker, given, "second")
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])
    # What the model creates by itself has float64's precision as well.
    centred = first[0].mean(0) - 1
    assert torch.allclose(centred, torch.full_like(centred, 1 / 3), rtol=1e-12)


ONLY_FLOAT32 = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64:
            raise RuntimeError('"kernel" not implemented for \\'Double\\'')
        return x + 1

def get_inputs():
    return [torch.rand(4)]

def get_init_inputs():
    return []
"""


def test_where_float64_is_not_defined_the_oracle_says_float32(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, ONLY_FLOAT32, dtype="bfloat16")
    given = make_inputs(evaluation, worker)
    (result,), told = run_oracle(evaluation, worker, given)
    assert told.precision == "float32"
    assert "not implemented for 'Double'" in told.why_float32
    assert torch.equal(result, given.tensors[0].float() + 1)


METHODS = SOFTMAX.replace(
    "    def forward",
    """    def values(self, x):
        return x * x

    def forward""",
)


def test_the_oracle_can_run_another_method(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, METHODS)
    given = make_inputs(evaluation, worker)
    (result,), _ = run_oracle(evaluation, worker, given, method="values")
    assert torch.equal(result, given.tensors[0].double() ** 2)


def test_truncated_and_sparse_inputs_change_the_oracle(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, SOFTMAX)
    given = make_inputs(evaluation, worker)
    before = given.tensors[0].clone()
    (truncated,), _ = run_oracle(
        evaluation, worker, given, "t", mutate=m.Mutation(name="truncate", dim=-1)
    )
    changed = before.double()
    changed[:, -2:] = 0  # an eighth of 20 columns, rounded down
    assert torch.equal(truncated, torch.softmax(changed, -1))
    (sparse,), _ = run_oracle(
        evaluation, worker, given, "s", mutate=m.Mutation(name="sparse", seed=3)
    )
    shares = sparse / before.double().exp()  # the same for all of a row that were not dropped
    dropped = int((~torch.isclose(shares, shares.median(1, keepdim=True).values)).sum())
    assert 1 <= dropped <= 20  # of 160 elements about 6 are dropped
    assert torch.equal(given.tensors[0], before)


CONVOLUTION = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3)

    def forward(self, x):
        return self.conv(x)

def get_inputs():
    return [torch.rand(1, 2, 5, 5)]

def get_init_inputs():
    return []
"""


def test_a_lost_tap_changes_the_oracle_once(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, CONVOLUTION)
    given = make_inputs(evaluation, worker)
    (right,), _ = run_oracle(evaluation, worker, given, "right")
    tap = m.Mutation(name="tap", parameter="conv.weight")
    (wrong,), _ = run_oracle(evaluation, worker, given, "wrong", mutate=tap)
    (after,), _ = run_oracle(evaluation, worker, given, "after")
    assert not torch.allclose(wrong, right)
    assert torch.equal(after, right)
    with pytest.raises(CommandFailedError, match="no parameter with spatial dimensions"):
        run_oracle(
            evaluation, worker, given, "none", mutate=m.Mutation(name="tap", parameter="conv.bias")
        )


def test_operations_are_counted_by_dtype(evaluation: Session) -> None:
    worker, _ = load_problem(evaluation, LINEAR, dtype="bfloat16")
    told = worker.flops()
    assert told.flops == 2 * 6 * 16 * 4
    assert told.by_dtype == {"bfloat16": told.flops}


def test_a_faulty_problem_is_reported_in_one_line_and_the_worker_goes_on(
    evaluation: Session,
) -> None:
    worker = evaluation.worker("problem")
    with pytest.raises(
        CommandFailedError, match="MissingNameError: the file does not define Model"
    ):
        worker.load_problem(m.LoadProblem(source="x = 1", device="cpu"))
    with pytest.raises(CommandFailedError, match="ZeroDivisionError") as caught:
        worker.load_problem(m.LoadProblem(source="def f():\n    return 1 / 0\nf()", device="cpu"))
    assert "\n" not in str(caught.value)
    unusable = LINEAR.replace("return [torch.rand(M, N)]", "return [object()]")
    worker.load_problem(m.LoadProblem(source=unusable, device="cpu"))
    with pytest.raises(CommandFailedError, match=r"input 0 .x.: a object cannot"):
        worker.describe_inputs(0)
