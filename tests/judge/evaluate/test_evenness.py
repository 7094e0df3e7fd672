"""A batch's work cannot be moved into few of its launches."""

import pytest

from judge.evaluate.evenness import batch_means, unevenness
from judge.evaluate.interleave import Method, Plan, Track
from judge.evaluate.result import TimingReport
from judge.evaluate.timing import Measurement, report

ROUNDS = 12


def rounds(*row: float) -> dict[int, list[float]]:
    """The same batch again and again, each time with another launch first, a little slower."""
    turned = [[*row[r % len(row) :], *row[: r % len(row)]] for r in range(ROUNDS)]
    return {r: [ms * (1 + r * 1e-4) for ms in each] for r, each in enumerate(turned)}


def reported(
    candidate: dict[int, list[float]],
    eager: dict[int, list[float]],
    method: Method = "events",
    **others: dict[int, list[float]],
) -> TimingReport:
    times = {"candidate": candidate, "eager": eager, **others}
    tracks = {name: Track(times=each) for name, each in times.items()}
    return report(Measurement(Plan(method, 8), tracks), precision="ieee")


EAGER = rounds(*[2.0] * 8)


def test_even_launches_keep_their_median() -> None:
    even = rounds(1.0, 1.01, 0.99, 1.0, 1.02, 0.98, 1.0, 1.0)
    found = reported(even, EAGER)
    assert found.cheats == ()
    assert found.timings[0].flagged == ()
    assert found.timings[0].median_ms == pytest.approx(1.0, rel=0.01)
    assert found.ratios[0].ratio == pytest.approx(2.0, rel=0.01)


def test_a_launch_that_does_the_work_of_the_batch_gains_nothing() -> None:
    skipping = rounds(16.0, *[0.001] * 7)
    found = reported(skipping, EAGER)
    assert found.timings[0].median_ms == pytest.approx(2.0, rel=0.01)
    assert not found.ratios[0].significant
    (cheat,) = found.cheats
    assert "a few launches do the work of the others" in cheat


def test_a_little_shifted_work_gains_nothing_and_is_no_cheat() -> None:
    shifted = rounds(*[1.8] * 5, *[2.0 + 1.0 / 3] * 3)
    found = reported(shifted, EAGER)
    assert found.cheats == ()
    assert found.timings[0].median_ms == pytest.approx(2.0, rel=0.01)
    assert "the mean is reported" in found.timings[0].flagged[0]
    assert not found.ratios[0].significant


def test_one_disturbed_batch_changes_nothing() -> None:
    disturbed = rounds(*[1.0] * 8)
    disturbed[3][0] = 50.0
    found = reported(disturbed, EAGER)
    assert found.cheats == ()
    assert found.timings[0].median_ms == pytest.approx(1.0, rel=0.01)


def test_launches_that_differ_for_eager_too_are_the_cards_doing() -> None:
    uneven = rounds(1.8, *[1.0] * 7)
    found = reported(uneven, {r: [2 * ms for ms in row] for r, row in uneven.items()})
    assert found.cheats == ()
    assert found.timings[0].median_ms == pytest.approx(1.0, rel=0.01)


def test_the_clock_sees_processes_wake_up_so_it_accuses_nobody() -> None:
    found = reported(rounds(8.0, *[1.0] * 7), EAGER, method="clock")
    assert found.cheats == ()
    assert found.timings[0].median_ms == pytest.approx(1.0, rel=0.01)


def test_a_baseline_is_evened_but_not_accused() -> None:
    found = reported(rounds(*[1.0] * 8), EAGER, rival=rounds(16.0, *[0.001] * 7))
    assert found.cheats == ()
    assert found.timings[2].median_ms == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, 1.0], 0.0),
        ([4.0, 0.0], 0.0),
        ([3.0, 1.0, 1.0], 2 / 3),
        ([1.0, 0.0, 0.0], float("inf")),
    ],
)
def test_unevenness_is_mean_above_median(row: list[float], expected: float) -> None:
    assert unevenness({0: row}) == pytest.approx(expected)


def test_evened_launches_keep_the_batches_sum() -> None:
    assert batch_means({5: [3.0, 1.0, 2.0]}) == {5: [2.0, 2.0, 2.0]}


def test_no_rounds_are_even() -> None:
    assert unevenness({}) == 0.0
