"""A diagnosis inside a context takes whatever a request may send."""

import random

import pytest

from agent.diagnose.contexts import suggest_techniques
from kb.context.models import ContextRequest
from kb.index.reader import open_generation
from kb.vocabulary import all_metrics

_EXTREMES = (0.0, 1e-300, 0.5, 1.0, 16.0, 99.0, 100.0, 1e6, 1e300, -1.0)


@pytest.fixture(scope="module")
def generation(shipped_index):
    return open_generation(shipped_index)


def test_no_value_of_a_metric_breaks_it(generation):
    generator = random.Random(7)
    names = [metric.name for metric in all_metrics()]
    for gpu in (None, "H100", "sm_90a"):
        for _ in range(120):
            chosen = generator.sample(names, generator.randint(1, len(names)))
            profile = {name: generator.choice(_EXTREMES) for name in chosen}
            found = suggest_techniques(
                profile, ContextRequest(profile=profile, gpu=gpu), generation
            )
            assert all(slug in generation.techniques and why for slug, why in found)


def test_the_best_of_each_finding_comes_first(generation):
    profile = {
        "lts__t_sector_hit_rate.pct": 30.0,
        "dram__throughput.avg.pct_of_peak_sustained_elapsed": 92.0,
    }
    found = suggest_techniques(profile, ContextRequest(profile=profile), generation)
    assert [slug for slug, _ in found[:2]] == ["pid-swizzling", "kernel-fusion"]
    assert "L2 misses" in found[0][1]
    assert "memory roof" in found[1][1]
