"""The figures of a sweep on all GPUs against one."""

import json
from pathlib import Path

from benchmarks.optimize.scaling import ALL, ONE, summary


def arm(seconds, cards, gpu="H100"):
    return {
        "seconds": seconds, "cards": [f"GPU {n}" for n in range(cards)],
        "runs": {"relu": {"wall_seconds": 9.0, "gpu": gpu}},
    }  # fmt: skip


def test_the_ratio_is_of_both_arms_and_a_dry_run_claims_nothing():
    assert summary({ALL: arm(50.0, 2)}) == {}
    told = summary({ALL: arm(55.0, 2), ONE: arm(100.0, 1)})
    assert (told["ratio"], told["cards"], told["met"]) == (0.55, 2, True)
    assert not summary({ALL: arm(61.0, 2), ONE: arm(100.0, 1)})["met"]
    assert not summary({ALL: arm(55.0, 2, None), ONE: arm(100.0, 1, None)})["met"]


def test_the_published_figures_are_those_of_the_record():
    [record] = Path("benchmarks/optimize/results").glob("scaling-*.json")
    found = json.loads(record.read_text())
    assert found["summary"] == summary(found["arms"])
    assert found["summary"]["met"]
    page = Path("docs/optimize.md").read_text()
    assert record.name in page
    assert f"**{found['summary']['ratio']}** of the time" in page
    for arm in found["arms"].values():
        assert f"{arm['seconds']:.1f} s on" in page
        assert len(arm["runs"]) == found["problems"] == 16
