"""The judge knows which wrong kernels it could not tell from right ones."""

from types import SimpleNamespace

import pytest
import torch

from judge.evaluate.cases import PlannedShape
from judge.evaluate.nvfp4 import quantize
from judge.evaluate.power import Power, why_unproven
from judge.evaluate.prepared import Prepared
from judge.evaluate.rules import Reference
from judge.problem.judge import JudgeDeclaration
from judge.worker import messages as m
from judge.worker.inputs import fill
from judge.worker.mutations import mutated_inputs

PLAIN = JudgeDeclaration()
NVFP4 = JudgeDeclaration(rule="nvfp4")


class Stage:
    """A problem in the test's own process; `function` is its oracle."""

    def __init__(self, function, declaration=PLAIN, label="full"):
        self.function = function
        self.declaration = declaration
        self.shape = PlannedShape(label, "")
        self.settings = SimpleNamespace(refill_seed=7)
        self.problem = SimpleNamespace(parameters=[])

    def prepare(self, kind, *inputs):
        exact = self.function(*(each.double() for each in inputs))
        if self.declaration.rule:
            codes, scales = quantize(exact)
            eager, outputs, values = [codes, scales], [None, None], exact
        else:
            eager, outputs, values = [exact.to(inputs[0].dtype)], [exact], None
        reference = Reference(
            outputs, [each.dtype for each in eager], self.declaration, values=values
        )
        self.inputs, self.reference = list(inputs), reference
        checked = reference.check(eager, reference.eager_limits())
        assert checked.problem is None
        return Prepared(
            m.ValueKind(kind),
            inputs=[m.InputSpec(name=f"x{i}", tensor=_spec(each)) for i, each in enumerate(inputs)],
            outputs=[_spec(each) for each in eager],
            reference=reference,
            eager=checked,
            limits=reference.candidate_limits(checked),
        )

    def mutate(self, mutation, templates):
        changed = mutated_inputs([each.double() for each in self.inputs], mutation)
        exact = self.function(*changed)
        values = exact if self.declaration.rule else None
        outputs = [None, None] if self.declaration.rule else [exact]
        changes = self.reference.differs(outputs, values)
        return self.reference.from_oracle(outputs, values, templates), changes


def _spec(tensor):
    return m.TensorSpec(shape=tuple(tensor.shape), dtype=str(tensor.dtype).removeprefix("torch."))


def matvec(a, v):
    return a @ v


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def uniform(*shape, dtype=torch.bfloat16):
    return torch.rand(*shape).to(dtype)


def zero_mean(*shape, dtype=torch.bfloat16):
    return torch.randn(*shape).to(dtype)


def missed(power):
    return {check.mutation for check in power.checks() if not check.proven}


def test_a_long_product_of_uniform_values_proves_too_little_and_zero_mean_values_do():
    stage, power = Stage(matvec), Power("given")
    power.examine(stage, stage.prepare("given", uniform(16, 1 << 17), uniform(1 << 17, 1)))
    assert "mean" in missed(power)
    assert not power.complete
    assert "every output its mean" in why_unproven(power.checks())
    power.examine(stage, stage.prepare("normal", zero_mean(16, 4096), zero_mean(4096, 1)))
    assert (missed(power), why_unproven(power.checks())) == (set(), None)
    assert power.complete


def test_every_input_and_dimension_is_truncated():
    stage, power = Stage(matvec), Power("given")
    power.examine(stage, stage.prepare("normal", zero_mean(8, 64), zero_mean(64, 1)))
    told = [check.detail for check in power.checks() if check.mutation == "truncate"]
    assert told == [
        "tail of 'x0' along dimension 0 dropped, given shapes",
        "tail of 'x0' along dimension 1 dropped, given shapes",
        "tail of 'x1' along dimension 0 dropped, given shapes",
    ]
    assert all(check.rejected_by == "full shape, normal values" for check in power.checks())


def test_an_input_whose_share_is_lost_in_rounding_is_missed():
    stage, power = Stage(lambda x, y: x + 1e-6 * y), Power("given")
    power.examine(stage, stage.prepare("normal", zero_mean(8, 64), zero_mean(8, 64)))
    assert missed(power) == {"truncate", "sparse"}
    assert "'x1'" in why_unproven(power.checks())


def test_a_mistake_that_changes_nothing_is_not_asked_for():
    stage, power = Stage(lambda x, y: x * 2), Power("given")
    power.examine(stage, stage.prepare("normal", zero_mean(8, 64), zero_mean(8, 64)))
    assert missed(power) == set()
    idle = [check for check in power.checks() if "'x1'" in check.detail]
    assert idle and not any(check.applies for check in idle)


def test_a_dropped_tap_of_a_pool_is_found_on_values_of_any_sign():
    def pool(x):
        return torch.nn.functional.max_pool2d(x, 3, 2, 1)

    for kind, values in (("given", uniform(2, 3, 33, 33)), ("normal", zero_mean(2, 3, 33, 33))):
        stage, power = Stage(pool), Power("given")
        power.examine(stage, stage.prepare(kind, values))
        assert {"sparse", "truncate", "zeros", "mean"} - missed(power) >= {"sparse", "zeros"}
        assert power.complete


def test_a_kind_that_tells_nothing_proves_nothing():
    stage, power = Stage(matvec), Power("given")
    power.examine(stage, stage.prepare("zero", torch.zeros(8, 64), torch.zeros(64, 1)))
    assert not power.complete
    assert not any(check.rejected_by for check in power.checks())


def test_nvfp4_outputs_are_mutated_as_a_kernel_would_store_them():
    stage, power = Stage(lambda x: x, NVFP4), Power("given")
    power.examine(stage, stage.prepare("normal", zero_mean(8, 64)))
    assert power.complete
    assert {check.mutation for check in power.checks()} == {"zeros", "mean", "truncate", "sparse"}


def test_a_mistake_of_a_computation_may_be_refused_at_smaller_shapes():
    def loss(x):
        return (x.float().logsumexp(-1) - x[:, 0].float()).mean()

    stage, power = Stage(loss), Power("given")
    power.examine(stage, stage.prepare("given", uniform(4096, 16)))
    assert "truncate" in missed(power)
    small = Power("smaller")
    for kind, factor in (("normal", 1.0), ("large", 2.0**40)):
        small.examine(stage, stage.prepare(kind, zero_mean(8, 16) * factor))
    assert why_unproven(power.checks(), small.checks()) is None
    assert why_unproven(power.checks()) is not None


def test_an_answer_without_a_computation_has_to_be_refused_where_it_counts():
    stage, power, small = Stage(matvec), Power("given"), Power("smaller")
    power.examine(stage, stage.prepare("given", uniform(16, 1 << 17), uniform(1 << 17, 1)))
    small.examine(stage, stage.prepare("normal", zero_mean(16, 4096), zero_mean(4096, 1)))
    assert "every output its mean" in why_unproven(power.checks(), small.checks())


def test_uneven_values_let_a_few_rows_decide():
    tensor = torch.rand(64, 48) + 0.5
    before = tensor.clone()
    fill(tensor, m.ValueKind.UNEVEN, 5)
    ratio = torch.log2(tensor / before)
    assert torch.equal(ratio, ratio.round())
    assert ratio.min() >= -12
    assert ratio.max() <= 0
    rows = tensor.sum(1)
    assert rows.sort(descending=True).values[:16].sum() > 0.4 * rows.sum()


def test_samples_that_are_summed_up_whole_differ_where_each_has_a_mean_of_its_own():
    weights = torch.randn(8, 64).double() / 8**0.5

    def saturating(x):
        return torch.sigmoid(x @ weights).sum((1, 2))

    def values(kind):
        tensor = torch.rand(32, 4096, 8).to(torch.bfloat16)
        fill(tensor, kind, 5)
        return tensor

    stage, power = Stage(saturating), Power("given")
    for kind in (m.ValueKind.NORMAL, m.ValueKind.GIVEN, m.ValueKind.SHIFTED, m.ValueKind.LARGE):
        power.examine(stage, stage.prepare(kind, values(kind)))
    assert "mean" in missed(power)
    power.examine(stage, stage.prepare("apart", values(m.ValueKind.APART)))
    assert "mean" not in missed(power)


@pytest.mark.parametrize("kind", [kind for kind in m.ValueKind if kind is not m.ValueKind.ZERO])
@pytest.mark.parametrize("part", [torch.tril, torch.triu])
def test_every_kind_of_values_keeps_a_triangle_of_zeros(kind, part) -> None:
    tensor = part(torch.rand(3, 6, 9) + 0.1)
    places = tensor != 0
    fill(tensor, kind, 5)
    assert torch.equal(tensor != 0, places)


def test_a_full_matrix_stays_full() -> None:
    tensor = torch.rand(6, 9) + 0.1
    tensor[0, -1] = tensor[-1, 0] = 0.0
    fill(tensor, m.ValueKind.NORMAL, 5)
    assert bool((tensor != 0).all())
