"""A claimed time against the judge's clock: lies are found, honest gaps are not."""

import random

import pytest

from judge.evaluate.wall import BATCH_MS, CLAIM_SHARE, GAP_SHARE, HOST_MS, Batch, check, statement


def batches(
    true_ms: float,
    claimed_ms: float | None = None,
    *,
    launches: int = 8,
    gap_ms: float = 0.5,
    message_ms: float = 0.3,
    jitter_ms: float = 0.0,
    rounds: int = 20,
    seed: int = 0,
) -> dict[int, Batch]:
    """What the judge's clock sees of launches of `true_ms` that are claimed to be shorter."""
    draw = random.Random(seed)
    claimed = true_ms if claimed_ms is None else claimed_ms
    return {
        r: Batch(
            wall_ms=message_ms + launches * (gap_ms + true_ms) + abs(draw.gauss(0, jitter_ms)),
            claimed_ms=launches * claimed,
            launches=launches,
        )
        for r in range(rounds)
    }


def test_an_honest_claim_passes_whoever_is_faster() -> None:
    eager = batches(2.0)
    for true_ms in (0.005, 0.1, 2.0, 20.0):
        found = check("candidate", batches(true_ms), eager, held=True)
        assert found is not None
        assert found.passed
        assert found.claimed_ms == pytest.approx(true_ms)
        assert found.gap_ms == pytest.approx(0.5 + 0.3 / 8)


@pytest.mark.parametrize("jitter_ms", [0.02, 0.2])
def test_an_honest_claim_passes_on_a_jittery_host(jitter_ms: float) -> None:
    for seed in range(20):
        eager = batches(1.0, jitter_ms=jitter_ms, seed=2 * seed)
        mine = batches(0.5, jitter_ms=jitter_ms, seed=2 * seed + 1)
        found = check("candidate", mine, eager, held=True)
        assert found is not None
        assert found.passed, found.detail


def test_half_the_time_claimed_is_found_and_said() -> None:
    found = check("candidate", batches(1.0, 0.5), batches(2.0), held=True)
    assert found is not None
    assert not found.passed
    said = statement(found)
    assert "candidate reports 0.5 ms" in said
    assert "1.5" in said  # the wall clock's time of a launch, hold included


def test_a_claim_above_the_truth_is_nobodys_gain_and_passes() -> None:
    found = check("candidate", batches(1.0, 3.0), batches(2.0), held=True)
    assert found is not None
    assert found.passed


def test_slow_host_code_is_allowed_for_in_free_batches_only() -> None:
    eager = batches(1.0, gap_ms=0.01)
    slow_host = batches(1.0, gap_ms=0.21)
    free, held = (check("candidate", slow_host, eager, held=h) for h in (False, True))
    assert free is not None
    assert held is not None
    assert free.passed
    assert not held.passed


def test_work_hidden_while_the_stream_is_held_shows_in_free_batches() -> None:
    hidden = batches(2.0, 0.1, gap_ms=0.01)
    found = check("candidate", hidden, batches(2.0, gap_ms=0.01), held=False)
    assert found is not None
    assert not found.passed


def test_too_few_common_rounds_say_nothing() -> None:
    assert check("candidate", batches(1.0, rounds=2), batches(1.0), held=True) is None
    other_rounds = {r + 100: batch for r, batch in batches(1.0).items()}
    assert check("candidate", other_rounds, batches(1.0), held=True) is None


def smallest_found(true_ms: float, launches: int, gap_ms: float, *, held: bool) -> float:
    """Fraction of a launch's true time that must be kept back to be found, without noise.

    Above 1 no lie is found. `gap_ms` is eager's gap a launch.
    """
    fixed = GAP_SHARE * gap_ms + BATCH_MS / launches + (0.0 if held else HOST_MS)
    # The claim c at which true - c = CLAIM_SHARE c + fixed.
    return 1 - (true_ms - fixed) / (1 + CLAIM_SHARE) / true_ms


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("true_ms,launches,gap_ms", [(0.02, 64, 0.01), (0.1, 16, 0.5), (8, 2, 0.5)])
def test_the_smallest_lie_that_is_found_is_as_stated(
    true_ms: float, launches: int, gap_ms: float, held: bool
) -> None:
    fraction = smallest_found(true_ms, launches, gap_ms, held=held)
    eager = batches(3.0, launches=launches, gap_ms=gap_ms, message_ms=0.0)
    for kept_back, passes in ((fraction * 0.98, True), (fraction * 1.02, False)):
        claim = true_ms * (1 - kept_back)
        mine = batches(true_ms, claim, launches=launches, gap_ms=gap_ms, message_ms=0.0)
        found = check("candidate", mine, eager, held=held)
        assert found is not None
        assert found.passed is passes
