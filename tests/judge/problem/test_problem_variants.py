"""Shape variants: which are proposed, that they run, and that they are what their labels say."""

import math

import pytest
import torch
from operators import OPERATORS

from judge.problem.shapes import input_shapes
from judge.problem.source import ProblemFile
from judge.problem.syntax import parse, reachable_names
from judge.problem.variants import INTERPRET_ELEMENTS, REDUCED_ELEMENTS, propose, why_none

LIMIT = INTERPRET_ELEMENTS


def run(text):
    """Execute a problem; its inputs' shapes, or None where the operator refuses them."""
    namespace = {}
    exec(compile(text, "problem.py", "exec"), namespace)
    try:
        inputs = namespace["get_inputs"]()
        with torch.no_grad():
            output = namespace["Model"](*namespace["get_init_inputs"]())(*inputs)
    except (RuntimeError, ValueError, IndexError):
        return None
    outputs = output if isinstance(output, tuple) else (output,)
    return [tuple(each.shape) for each in inputs] if all(o.numel() for o in outputs) else None


@pytest.mark.parametrize("text", OPERATORS.values(), ids=OPERATORS)
def test_reduced_shapes_run_and_variants_mostly_do(text):
    problem = ProblemFile.parse(text)
    assert why_none(problem) is None
    proposals = propose(problem, 7, limit_elements=LIMIT)
    assert {each.label for each in proposals} == {"reduced", "variant"}
    ran = {"reduced": 0, "variant": 0}
    for each in proposals:
        changed = problem.with_constants(each.constants)
        shapes = run(changed)
        assert shapes is not None or each.label == "variant", each
        if shapes is not None:
            ran[each.label] += 1
            assert input_shapes(changed, "problem.py") is not None
            assert max(math.prod(shape) for shape in shapes) <= LIMIT
    assert ran["reduced"] >= 1
    assert ran["variant"] >= 2


@pytest.mark.parametrize("text", OPERATORS.values(), ids=OPERATORS)
def test_the_shapes_told_from_the_tree_are_those_that_run(text):
    problem = ProblemFile.parse(text)
    (smallest, *_) = propose(problem, 1, reduced=1, variants=0, limit_elements=LIMIT)
    changed = problem.with_constants(smallest.constants)
    assert sorted(input_shapes(changed, "p.py")) == sorted(run(changed))


def test_small_constants_stay_in_reduced_shapes():
    problem = ProblemFile.parse(OPERATORS["max pooling 1d"])
    for each in propose(problem, 3):
        assert not set(each.constants) & {"kernel_size", "stride", "padding", "dilation"}
    assert set(problem.constants) == {"batch_size", "features", "sequence_length"}


def test_reduced_shapes_keep_equal_sizes_equal_and_variants_do_not():
    problem = ProblemFile.parse(OPERATORS["diagonal matmul"])
    found = propose(problem, 5, variants=8, limit_elements=1 << 14)
    reduced = [each.constants for each in found if each.label == "reduced"]
    assert all(each["M"] == each["N"] for each in reduced)
    variants = [each.constants for each in found if each.label == "variant"]
    assert any(each.get("M") != each.get("N") for each in variants)
    assert any(1 in each.values() for each in variants)
    assert any(value % 2 for each in variants for value in each.values() if value > 1)


def test_one_seed_gives_one_answer_and_seeds_differ():
    problem = ProblemFile.parse(OPERATORS["convolution 2d"])
    assert propose(problem, 1) == propose(problem, 1)
    assert propose(problem, 1) != propose(problem, 2)


def test_a_problem_below_the_limit_is_not_reduced():
    problem = ProblemFile.parse(OPERATORS["matmul"].replace("1024 * 2", "64").replace("* 2", ""))
    (largest, *_) = propose(problem, 1)
    assert math.prod(largest.constants.values()) < REDUCED_ELEMENTS


def test_declared_rules_are_kept():
    rules = (
        "JUDGE = {'constants': {'N': {'multiple': 16, 'min': 32}, 'K': {'fixed': True},"
        " 'M': {'max': 100}}}\n"
    )
    problem = ProblemFile.parse(OPERATORS["matmul"] + rules)
    found = propose(problem, 9, variants=10, limit_elements=1 << 20)
    assert len(found) > 5
    for each in found:
        values = each.constants
        assert "K" not in values
        assert values.get("M", 1) <= 100
        assert values.get("N", 32) % 16 == 0
        assert values.get("N", 32) >= 32


def test_sizes_that_stand_nowhere_leave_the_given_shape_only():
    text = OPERATORS["relu on a shape"].replace(
        "torch.rand(batch_size, dim)", "torch.rand(torch.eye(1).shape)"
    )
    problem = ProblemFile.parse(text)
    assert propose(problem, 1) == []
    assert "judged at the given shape only" in why_none(problem)


def test_a_constant_that_changes_no_shape_is_left_alone():
    text = OPERATORS["embedding"].replace("torch.rand(vocabulary, width)", "torch.rand(99, width)")
    problem = ProblemFile.parse(text.replace("torch.randint(0, vocabulary,", "torch.randint(0, 9,"))
    for each in propose(problem, 1, limit_elements=LIMIT):
        assert "vocabulary" not in each.constants


def test_shapes_that_cannot_be_told_are_bounded_by_the_product_of_the_constants():
    text = OPERATORS["matmul"].replace("torch.rand(M, K)", "torch.rand(*[M, K][::-1]).t()")
    problem = ProblemFile.parse(text)
    assert input_shapes(text, "p.py") is None
    for each in propose(problem, 1, limit_elements=LIMIT):
        values = {name: constant.value for name, constant in problem.constants.items()}
        assert math.prod((values | each.constants).values()) <= LIMIT


def test_reachability_follows_helpers_and_single_elements_of_tuples():
    module = parse("a, b = 1, 2\nc = b\ndef f():\n    return g()\ndef g():\n    return c\n", "p.py")
    assert reachable_names(module, ["f"]) == {"f", "g", "c", "b"}
