"""What a run keeps of its limits for the last session."""

import pytest

from agent.optimize import budget
from agent.optimize.candidate import Judged
from agent.optimize.config import Limits, RunConfig
from agent.optimize.events import Closed, Started, WasJudged
from agent.optimize.judge import WHOLE
from agent.optimize.offers import candidate_of
from agent.optimize.record import Record
from tests.agent.optimize.scripted import ScriptedJudge, config, proposal, start


def began(start_seconds: float) -> Record:
    """A run whose start was judged in so many seconds of GPU time."""
    standing = ScriptedJudge(start_seconds=start_seconds).judge_start(start(), lambda _: None)
    record = Record()
    record.add(Started(wall=0, at="2026-01-01T00:00:00Z", standing=standing))
    return record


def led_by(record: Record, seconds: float) -> Record:
    """The same with a leader that was judged in so many seconds."""
    candidate = candidate_of(proposal(0.5), 1, repairs=None)
    outcome = ScriptedJudge().judge(candidate, record.start, 1, lambda _: None)
    judged = Judged(
        candidate=candidate, outcome=outcome.model_copy(update={"gpu_seconds": seconds})
    )
    told = {"wall": 1, "at": "2026-01-01T00:00:01Z", "round": 1}
    record.add(WasJudged(**told, position=0, judged=judged))
    record.add(Closed(**told, leader=judged.id, beam=(judged.id,), retired=(), gain=0.5))
    return record


def limited(seconds: float | None, **more: object) -> RunConfig:
    return config(Limits(gpu_seconds=seconds), **more)


def test_a_whole_session_is_kept_where_the_limit_has_room() -> None:
    record = began(24.4)
    kept = budget.reserve(record, limited(240))
    assert kept == budget.last_session(record, limited(240))
    assert 30 <= kept <= 50, "it took 30 s (conv_transpose3d on an H200, no kernel found)"
    assert budget.reserve(record, limited(None)) == kept
    assert not budget.allowance(record, limited(240), 0.0).short
    assert budget.allowance(record, limited(None), 0.0) == WHOLE


@pytest.mark.parametrize(("wall", "seconds"), [(105.0, 155.0), (250.0, 10.0), (299.0, 0.0)])
def test_compiling_baselines_may_take_what_is_left_of_the_wall_time(
    wall: float, seconds: float
) -> None:
    record, asked = began(20), config(Limits(seconds=300))
    assert budget.last_session(record, asked) == pytest.approx(38)
    found = budget.allowance(record, asked, wall).compile_seconds
    assert found == pytest.approx(max(0.0, 300 - wall - 38))
    assert found == pytest.approx(seconds, abs=3)


@pytest.mark.parametrize("start_seconds", [5.0, 15.0, 24.4, 29.2, 50.0, 70.0])
def test_some_of_the_limit_is_always_left_for_the_search(start_seconds: float) -> None:
    record, limits = began(start_seconds), limited(75)
    left = budget.seconds_left(record, limits, 0.0)
    assert left is not None
    assert left >= 0.25 * (75 - start_seconds) - 1e-9
    assert budget.limit_reached(record, limits, 0.0) is None


def test_a_limit_that_the_start_took_is_used_up() -> None:
    record = began(80)
    assert budget.reserve(record, limited(75)) == 0
    assert budget.limit_reached(record, limited(75), 0.0) == (budget.GPU_TIME, "80 of 75 s")
    assert budget.allowance(record, limited(75), 0.0).short


def test_a_leader_tells_more_of_the_last_session_than_a_slow_start() -> None:
    limits = limited(240)
    before = budget.reserve(began(60), limits)
    assert budget.reserve(led_by(began(60), 12), limits) < before / 2


def test_a_leader_judged_in_a_last_session_counts_as_the_start_does() -> None:
    limits = limited(240)
    assert budget.reserve(led_by(began(20), 0), limits) == budget.reserve(began(20), limits)


def test_nothing_is_kept_where_there_is_no_last_session() -> None:
    assert budget.reserve(began(20), limited(240, confirm=False)) == 0


def test_of_wall_time_a_last_session_is_kept_too() -> None:
    record, limits = began(10), config(Limits(seconds=120))
    kept = budget.reserve(record, limits, budget.TIME)
    assert kept > budget.last_session(record, limits), "baselines are compiled as well"
    assert budget.limit_reached(record, limits, 119 - kept) is None
    ended = budget.limit_reached(record, limits, 120 - kept)
    assert ended is not None
    assert ended[0] == budget.TIME
    assert f"{kept:.0f} s reserved for the last session" in ended[1]


def test_the_nearer_limit_says_what_is_left() -> None:
    record, both = began(10), config(Limits(seconds=120, gpu_seconds=100))
    by_wall = budget.seconds_left(record, config(Limits(seconds=120)), 70)
    by_gpu = budget.seconds_left(record, limited(100), 70)
    assert by_wall is not None
    assert by_gpu is not None
    assert budget.seconds_left(record, both, 70) == by_wall < by_gpu
    assert budget.seconds_left(record, both, 0) == by_gpu
    assert budget.seconds_left(record, limited(None), 70) is None
    assert budget.wall_left(record, both, 70) == by_wall
    assert budget.wall_left(record, limited(100), 70) is None
    assert budget.wall_left(record, both, 500) == 0


def test_a_short_limit_leaves_time_for_a_search() -> None:
    record, limits = began(20), config(Limits(seconds=60))
    left = budget.seconds_left(record, limits, record.started_wall)
    assert left is not None
    assert left >= 0.25 * (60 - record.started_wall) - 1e-9
