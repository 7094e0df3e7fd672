"""The stages of a search that the benchmark times are there, and are put back as they were."""

from benchmarks.index.latency import STAGES, stopwatches


def test_every_stage_is_timed_and_left_as_it_was():
    calls = [call for stage in STAGES.values() for call in stage]
    before = [getattr(owner, name) for owner, name in calls]
    with stopwatches() as spent:
        during = [getattr(owner, name) for owner, name in calls]
    assert spent == dict.fromkeys(STAGES, 0.0)
    assert all(one is not other for one, other in zip(before, during, strict=True))
    assert [getattr(owner, name) for owner, name in calls] == before
