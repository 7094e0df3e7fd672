"""The benchmark's metrics give the numbers that a hand gives."""

import math

import pytest

from benchmarks.retrieval.cases import Answer, half_of
from benchmarks.retrieval.metrics import budget_metrics, interval, named_answers, rank_metrics


def answer(name, grade=1, units=None):
    return Answer(name, frozenset(units or {name}), grade)


def test_one_answer_at_the_third_place():
    found = rank_metrics(["x", "y", "a", "z"], [answer("a")])
    assert found["nDCG@10"] == pytest.approx(1 / math.log2(4))
    assert found["MRR@10"] == pytest.approx(1 / 3)
    assert (found["recall@1"], found["recall@5"], found["recall@10"]) == (0, 1, 1)


def test_graded_answers_in_the_wrong_order():
    answers = [answer("best", 3), answer("good", 1)]
    gain = 1 / math.log2(2) + 3 / math.log2(3)
    ideal = 3 / math.log2(2) + 1 / math.log2(3)
    found = rank_metrics(["good", "best"], answers)
    assert found["nDCG@10"] == pytest.approx(gain / ideal)
    assert found["MRR@10"] == 1  # something relevant is first
    assert found["recall@1"] == 0  # but not what was asked for


def test_an_answer_behind_the_tenth_place_does_not_count():
    ranking = [f"x{i}" for i in range(10)] + ["a"]
    assert set(rank_metrics(ranking, [answer("a")]).values()) == {0.0}


def test_nothing_found_scores_nothing():
    assert set(rank_metrics([], [answer("a")]).values()) == {0.0}


def test_copies_of_the_answer_take_one_place():
    answers = [answer("a", units={"u1", "u2"})]
    assert named_answers(["u0", "u2", "u1", "u3"], answers) == ["unit u0", "a", "unit u3"]


def test_a_budget_holds_the_answer_only_if_its_whole_text_fits():
    found = budget_metrics(["x", "a"], [400, 200], [answer("a")])
    assert found == {"recall@500t": 0, "recall@1000t": 1, "recall@2000t": 1, "recall@4000t": 1}
    assert budget_metrics(["x", "a"], [400, 100], [answer("a")])["recall@500t"] == 1
    assert set(budget_metrics([], [], [answer("a")]).values()) == {0.0}


def test_only_a_best_graded_answer_fills_a_budget():
    answers = [answer("best", 3), answer("good", 1)]
    assert budget_metrics(["good", "best"], [100, 800], answers)["recall@500t"] == 0


def test_an_interval_holds_its_mean_and_is_the_same_every_time():
    values = [0.0, 1.0, 1.0, 0.5, 0.25, 1.0]
    first = interval(values)
    assert first == interval(values)
    assert first.low < first.mean < first.high
    assert first.mean == pytest.approx(sum(values) / 6)
    assert interval([0.5] * 8).low == interval([0.5] * 8).high == 0.5


def test_halves_are_fixed_and_about_equal():
    halves = [half_of(f"query {i}") for i in range(1000)]
    assert halves == [half_of(f"query {i}") for i in range(1000)]
    assert 450 < halves.count("dev") < 550
