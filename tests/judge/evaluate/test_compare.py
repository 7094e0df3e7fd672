"""Outputs are held against the oracle: what rounding explains passes, what it cannot is refused."""

import math

import pytest
import torch

from judge.evaluate import compare as module
from judge.evaluate.compare import compare, distance, expect
from judge.evaluate.tolerance import (
    candidate_limits,
    eager_limits,
    integer_limits,
    looks_like_tf32,
    usual_eager_limits,
)

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn]


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 1000)


def judge(got, values, dtype=None, **limits):
    dtype = dtype or got.dtype
    return compare(got, expect(values, dtype), candidate_limits(dtype, **limits))


def normal(*shape, seed=0):
    torch.manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_correctly_rounded_result_passes_and_is_equal_to_the_rounded_oracle(dtype):
    values = normal(7, 611)
    found = judge(values.to(dtype), values)
    assert (found.problem, found.unequal, found.examples) == (None, 0, ())
    assert found.max_abs == float((values.to(dtype).double() - values).abs().max())


def test_errors_are_those_of_their_definitions():
    values = normal(3000)
    got = (values + 1e-7 * normal(3000, seed=1)).float()
    found, error = judge(got, values), got.double() - values
    rms = float(values.square().mean().sqrt())
    assert found.norm_ratio == pytest.approx(float(error.norm() / values.norm()), rel=1e-12)
    assert found.max_abs == float(error.abs().max())
    assert found.max_rel == pytest.approx(float((error.abs() / (values.abs() + rms)).max()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_four_intermediates_in_the_format_pass_and_a_coarser_format_does_not(dtype):
    factors = [normal(5000, seed=seed).to(dtype) for seed in range(5)]
    exact, rounded = factors[0].double(), factors[0]
    for factor in factors[1:]:
        exact, rounded = exact * factor.double(), rounded * factor
    assert judge(rounded, exact).problem is None
    values = normal(5000)
    coarser = values.to(torch.float8_e4m3fn if dtype is torch.bfloat16 else torch.bfloat16)
    assert "relative error" in judge(coarser.to(dtype), values).problem or "have errors of" in (
        judge(coarser.to(dtype), values).problem
    )


def test_tf32_and_half_products_are_refused_in_float32_unless_declared():
    a, b = normal(64, 256).float(), normal(256, 64, seed=1).float()
    values = a.double() @ b.double()
    assert judge(a @ b, values, terms=256).problem is None
    reduced = (a.half().float() @ b.half().float()).float()
    found = judge(reduced, values, terms=256)
    assert found.problem is not None
    assert looks_like_tf32(torch.float32, "ieee", found.norm_ratio)
    assert judge(reduced, values, terms=256, precision="tf32").problem is None


def test_a_long_sum_in_one_float32_chain_passes_only_with_its_length_known():
    torch.manual_seed(3)
    terms = torch.rand(8, 1 << 20, dtype=torch.float32)
    values = terms.double().sum(-1)
    chained = torch.from_numpy(terms.numpy().cumsum(-1)[:, -1].copy())
    assert judge(chained, values).problem is not None
    assert judge(chained, values, terms=1 << 20).problem is None


def test_one_wrong_element_among_many_is_found_and_shown():
    values = normal(40, 50, 3)
    got = values.float()
    got[39, 49, 2] = got[39, 49, 1]
    found = judge(got, values)
    assert found.problem.startswith("1 of 6000 elements have errors")
    example = found.examples[0]
    assert (example.output, example.index) == (0, (39, 49, 2))
    assert (example.got, example.expected) == (float(got[39, 49, 1]), float(values[39, 49, 2]))


def test_a_small_error_everywhere_is_found_by_its_norm():
    values = normal(5000)
    found = judge((values * (1 + 2e-5)).float(), values)
    assert "relative error of the norm 2e-05" in found.problem
    assert len(found.examples) == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_unwritten_and_infinite_elements_are_refused_where_the_oracle_is_finite(bad):
    values = normal(2500)
    got = values.to(torch.bfloat16)
    got[2400] = bad
    found = judge(got, values)
    assert found.problem is not None
    assert [example.index for example in found.examples] == [(2400,)]


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_infinities_and_nan_must_be_where_the_oracle_has_them(special):
    values = normal(2500)
    values[7] = special
    got = values.float()
    assert judge(got, values).problem is None
    for other in (0.0, -special, 1e38):
        if math.isnan(special) and math.isnan(other):
            continue
        got[7] = other
        assert "NaN, infinite or unwritten" in judge(got, values).problem


def test_overflow_of_the_format_may_be_infinity_or_its_largest_number():
    values = torch.tensor([1e6, -1e6, 6e4, 1.0], dtype=torch.float64)
    assert judge(values.half(), values).problem is None
    assert judge(torch.tensor([65504.0, -65504.0, 6e4, 1.0]).half(), values).problem is None
    assert judge(torch.tensor([-math.inf, -math.inf, 6e4, 1.0]).half(), values).problem is not None
    assert judge(torch.tensor([math.inf, -math.inf, 3e4, 1.0]).half(), values).problem is not None


def test_zero_must_be_zero_but_underflow_is_forgiven():
    zero = torch.zeros(100, dtype=torch.float64)
    assert judge(zero.float(), zero).problem is None
    assert judge(zero.float() + 1e-30, zero).problem is not None
    tiny = torch.full((100,), 3e-39, dtype=torch.float64)
    assert judge(torch.zeros(100), tiny).problem is None
    assert (
        judge(torch.zeros(100).half(), torch.full((100,), 3e-8, dtype=torch.float64)).problem
        is None
    )
    assert judge(torch.zeros(100).half(), torch.full((100,), 3e-7, dtype=torch.float64)).problem


def test_exact_demands_equality_and_counts_what_differs():
    values = normal(2500).half().double()
    expected = expect(values, torch.float16)
    assert expected.representable
    assert not expect(normal(2500), torch.float16).representable
    assert not expect(values.half(), torch.float16).representable  # who knows what it was
    got = values.half()
    assert compare(got, expected, None).problem is None
    got[3] = torch.nextafter(got[3], torch.tensor(9.0).half())
    found = compare(got, expected, None)
    assert found.problem.startswith("1 of 2500 elements differ, although no")
    assert (found.unequal, found.examples[0].index) == (1, (3,))
    assert compare(got, expected, candidate_limits(torch.float16)).problem is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_booleans_must_be_equal(dtype):
    values = torch.arange(2100).reshape(3, 700).remainder(2 if dtype is torch.bool else 97)
    expected = expect(values, dtype)
    got = values.to(dtype, copy=True)
    assert compare(got, expected, candidate_limits(torch.float32)).problem is None
    got[2, 1] = not got[2, 1]
    found = compare(got, expected, candidate_limits(torch.float32))
    assert found.problem.startswith("1 of 2100 elements differ")
    assert found.examples[0].index == (2, 1)


def test_integers_that_were_rounded_may_be_off_as_far_and_as_often_as_eagers():
    values = torch.arange(3000).remainder(200) - 100
    expected, limits = expect(values, torch.int8), integer_limits(3000, (20, 1.0))
    got = values.to(torch.int8)
    got[:48] += 1
    found = compare(got, expected, limits)
    assert (found.problem, found.unequal, found.max_abs) == (None, 48, 1.0)
    got[48] += 1
    assert compare(got, expected, limits).problem.startswith("49 of 3000 elements differ, by up to")
    got[:49] = values[:49]
    got[7] += 2
    assert compare(got, expected, limits).problem is not None
    assert compare(got, expected, integer_limits(3000, (20, 2.0))).problem is None
    assert compare(got, expected, None).problem.startswith("1 of 3000 elements differ; int8 must")


def test_a_byte_may_hold_two_codes():
    values = torch.arange(3000).remainder(7) * 16 + torch.arange(3000).remainder(5)
    got = values.to(torch.uint8)
    got[3] += 17
    limits = integer_limits(3000, (1, 1.0))
    assert compare(got, expect(values, torch.uint8), limits).problem is None
    got[3] += 1
    assert compare(got, expect(values, torch.uint8), limits).problem is not None


def test_conditions_are_never_off():
    values = torch.arange(3000).remainder(3) == 0
    got = values.clone()
    got[5] = ~got[5]
    assert compare(got, expect(values, torch.bool), integer_limits(3000, (9, 1.0))).problem


def test_large_integers_are_not_compared_through_floats():
    values = torch.tensor([2**60, 2**60 + 1])
    assert compare(values.flip(0), expect(values, torch.int64), None).unequal == 2


def test_complex_outputs_are_compared_part_by_part():
    values = torch.complex(normal(30, 50), normal(30, 50, seed=1))
    got = values.to(torch.complex64)
    assert judge(got, values).problem is None
    got[2, 3] = got[2, 3].conj()
    found = judge(got, values)
    assert (found.examples[0].index, len(found.examples)) == ((2, 3, 1), 1)


def test_shape_and_dtype_must_be_the_reference_s():
    values = normal(4, 4)
    assert "shape [4, 2]" in judge(values[:, :2].float().contiguous(), values).problem
    assert "dtype float64 instead of float32" in judge(values, values, torch.float32).problem


def test_an_empty_output_and_a_scalar_are_compared():
    assert judge(torch.empty(0, 3), torch.empty(0, 3, dtype=torch.float64)).problem is None
    assert judge(torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64)).problem is None
    assert judge(torch.tensor(2.1), torch.tensor(2.0, dtype=torch.float64)).examples[0].index == ()


def test_a_candidate_may_err_somewhat_more_than_eager_and_eager_only_so_much():
    loose = candidate_limits(torch.bfloat16, eager_norm=2e-2, eager_worst=5e-2)
    strict = candidate_limits(torch.bfloat16)
    assert (loose.norm, loose.worst) == (4e-2, pytest.approx(0.15))
    assert strict.norm < 1e-2
    assert usual_eager_limits(torch.bfloat16).norm == pytest.approx(6e-2)
    assert eager_limits(torch.bfloat16).norm == eager_limits(torch.float32).norm == 0.2


def test_two_calls_are_as_far_apart_as_their_finite_elements():
    one = [torch.tensor([3.0, 4.0, float("nan")]), torch.zeros(2)]
    other = [torch.tensor([3.0, 4.5, float("inf")]), torch.zeros(2)]
    assert distance(one, other) == pytest.approx(0.1)
    assert distance(one, one) == 0


def test_a_sum_that_cancels_by_chance_is_judged_by_the_size_of_its_terms():
    values = torch.tensor([1e-4], dtype=torch.float64)
    got = (values + 3e-7).float()  # what adding terms of about 1 in another order may cost
    limits = candidate_limits(torch.float32)
    assert compare(got, expect(values, torch.float32), limits).problem is not None
    assert compare(got, expect(values, torch.float32, sensitivity=5.0), limits).problem is None
    off = (values + 3e-4).float()
    assert compare(off, expect(values, torch.float32, sensitivity=5.0), limits).problem is not None
