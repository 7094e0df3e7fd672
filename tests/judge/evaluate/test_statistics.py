"""Medians with a spread, and when a ratio of medians is more than noise."""

import random

import pytest

from judge.evaluate.statistics import ratio_of_medians, repeatability, summarise


def noisy(middle: float, spread: float, rounds: int = 40, launches: int = 2, seed: int = 1):
    draw = random.Random(seed)
    return {
        r: [middle * (1 + draw.gauss(0, spread)) for _ in range(launches)] for r in range(rounds)
    }


def test_a_summary_has_the_median_and_the_deciles() -> None:
    found = summarise([float(value) for value in range(11)])
    assert (found.median, found.p10, found.p90, found.count) == (5.0, 1.0, 9.0, 11)


def test_one_time_is_its_own_summary() -> None:
    found = summarise([3.0])
    assert (found.median, found.p10, found.p90, found.count) == (3.0, 3.0, 3.0, 1)


def test_no_times_have_no_summary() -> None:
    with pytest.raises(ValueError, match="no times"):
        summarise([])


def test_a_clear_speedup_is_significant_and_inside_its_interval() -> None:
    found = ratio_of_medians(noisy(2.0, 0.02, seed=1), noisy(1.0, 0.02, seed=2))
    assert 1.9 < found.low < found.ratio < found.high < 2.1
    assert found.significant


def test_a_slowdown_is_significant_too() -> None:
    assert ratio_of_medians(noisy(1.0, 0.02, seed=1), noisy(2.0, 0.02, seed=2)).significant


def test_a_difference_inside_the_spread_is_none() -> None:
    found = ratio_of_medians(noisy(1.02, 0.2, seed=3), noisy(1.0, 0.2, seed=4))
    assert found.low <= 1 <= found.high
    assert not found.significant


def test_a_difference_that_two_runs_of_one_kernel_may_show_is_none_however_narrow() -> None:
    found = ratio_of_medians(noisy(1.005, 1e-5), noisy(1.0, 1e-5))
    assert found.low > 1
    assert not found.significant
    # The same share is 2 µs of a longer kernel's 100 µs, where less than 3 % is noise.
    assert not ratio_of_medians(noisy(0.102, 1e-5), noisy(0.1, 1e-5)).significant
    assert ratio_of_medians(noisy(1.02, 1e-5), noisy(1.0, 1e-5)).significant


def test_what_a_round_has_in_common_cancels() -> None:
    # The clock halves in half of the rounds: unpaired, the interval would span a factor of 2.
    draw = random.Random(5)
    drift = [draw.choice((1.0, 2.0)) for _ in range(41)]
    over = {r: [1.1 * d] for r, d in enumerate(drift)}
    of = {r: [1.0 * d] for r, d in enumerate(drift)}
    found = ratio_of_medians(over, of)
    assert found.low == pytest.approx(1.1)
    assert found.high == pytest.approx(1.1)
    assert found.significant


def test_rounds_that_one_contender_lacks_are_left_out() -> None:
    over = {0: [9.0], **{r: [2.0] for r in range(1, 11)}}
    of = {**{r: [1.0] for r in range(1, 11)}, 11: [9.0]}
    found = ratio_of_medians(over, of)
    assert (found.ratio, found.low, found.high) == (2.0, 2.0, 2.0)


def test_few_rounds_prove_nothing() -> None:
    found = ratio_of_medians(noisy(2.0, 0.01, rounds=5), noisy(1.0, 0.01, rounds=5))
    assert found.ratio == pytest.approx(2.0, rel=0.05)
    assert not found.significant


def test_contenders_without_a_common_round_have_no_ratio() -> None:
    with pytest.raises(ValueError, match="no round"):
        ratio_of_medians({0: [1.0]}, {1: [1.0]})


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    held = 0
    for seed in range(60):
        over = noisy(1.5, 0.05, rounds=30, seed=2 * seed)
        of = noisy(1.0, 0.05, rounds=30, seed=2 * seed + 1)
        found = ratio_of_medians(over, of, resamples=400)
        held += found.low <= 1.5 <= found.high
    assert held >= 52  # 95 % of 60 is 57; fewer than 52 have a chance of about 1 in 100


def test_the_noise_allowed_falls_with_the_time() -> None:
    assert [repeatability(ms) for ms in (0.005, 0.05, 0.3, 8.0)] == [0.05, 0.03, 0.01, 0.01]
